//! Counts for a Prometheus scrape, kept separately by each router: tests run many in one process.
//! Labels are route templates and statuses: it must not put an id into one.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::http::Method;
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{api::admin::ScrubReport, env::sync::RwLock, service::OperationCounts};

/// Requests between two upkeep runs, which move latencies from memory into buckets.
const UPKEEP_REQUESTS: u64 = 1_024;
/// Upper bounds of the latency buckets, in seconds.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 60.0];

/// Counters of one router.
pub(super) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    requests: AtomicU64,
    /// Counters by route, then by method and status: found without building labels again.
    known: RwLock<HashMap<String, Vec<LabelCounters>>>,
}

/// Counters of one set of labels.
#[derive(Clone)]
struct LabelCounters {
    method: &'static str,
    status: u16,
    requests: Counter,
    seconds: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets(&SECONDS).expect("the list of bounds is not empty");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, describe_metrics);
        Self { recorder, handle, requests: AtomicU64::new(0), known: RwLock::default() }
    }

    /// Counts an answered request.
    pub(super) fn count_request(&self, method: &Method, route: &str, status: u16, took: Duration) {
        let known = self.counters(method_label(method), route, status);
        known.requests.increment(1);
        known.seconds.record(took);
        if self.requests.fetch_add(1, Ordering::Relaxed) % UPKEEP_REQUESTS == UPKEEP_REQUESTS - 1 {
            self.handle.run_upkeep();
        }
    }

    fn counters(&self, method: &'static str, route: &str, status: u16) -> LabelCounters {
        let read = self.known.read();
        let same = |known: &&LabelCounters| (known.method, known.status) == (method, status);
        if let Some(known) = read.get(route).and_then(|of_route| of_route.iter().find(same)) {
            return known.clone();
        }
        drop(read);
        let known = metrics::with_local_recorder(&self.recorder, || {
            let (route, text) = (route.to_owned(), status.to_string());
            let labels = [("method", method.to_owned()), ("route", route), ("status", text)];
            let requests = metrics::counter!("sessionlog_http_requests_total", &labels);
            let [method_label, route, _] = labels;
            let labels = [method_label, route];
            let seconds = metrics::histogram!("sessionlog_http_request_seconds", &labels);
            LabelCounters { method, status, requests, seconds }
        });
        let mut write = self.known.write();
        write.entry(route.to_owned()).or_default().push(known.clone());
        known
    }

    /// Formats all metrics as the text of a scrape.
    pub(super) fn render(
        &self,
        counts: OperationCounts,
        readers: usize,
        scrub: &ScrubReport,
    ) -> String {
        let readers = u32::try_from(readers).unwrap_or(u32::MAX);
        metrics::with_local_recorder(&self.recorder, || {
            metrics::counter!("sessionlog_appends_total").absolute(counts.appends);
            metrics::counter!("sessionlog_events_appended_total").absolute(counts.events);
            metrics::counter!("sessionlog_bytes_appended_total").absolute(counts.bytes);
            metrics::counter!("sessionlog_sessions_expired_total").absolute(counts.expired);
            metrics::counter!("sessionlog_sessions_reclaimed_total").absolute(counts.reclaimed);
            metrics::gauge!("sessionlog_readers").set(readers);
            metrics::counter!("sessionlog_scrubs_total").absolute(scrub.rounds);
            let found = u32::try_from(scrub.found.len()).unwrap_or(u32::MAX);
            metrics::gauge!("sessionlog_scrub_damage").set(found);
            let index = counts.index;
            let gauge = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            metrics::gauge!("sessionlog_search_passages").set(gauge(index.passages));
            metrics::gauge!("sessionlog_search_parts").set(gauge(index.parts));
            metrics::gauge!("sessionlog_search_memory_bytes").set(gauge(index.memory_bytes));
            metrics::gauge!("sessionlog_search_events_behind").set(gauge(index.events_behind));
            metrics::gauge!("sessionlog_search_sessions_unreadable")
                .set(gauge(index.sessions_unreadable));
            metrics::counter!("sessionlog_search_files_lost_total").absolute(index.lost);
        });
        self.handle.run_upkeep();
        self.handle.render()
    }
}

/// Returns the label of a method; all unknown methods share one.
fn method_label(method: &Method) -> &'static str {
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];
    methods.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}

fn describe_metrics() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("sessionlog_http_requests_total", "Requests by method, route and status.");
    describe_histogram!("sessionlog_http_request_seconds", "Time until the answer began.");
    describe_counter!("sessionlog_appends_total", "Batches appended.");
    describe_counter!("sessionlog_events_appended_total", "Events appended.");
    describe_counter!("sessionlog_bytes_appended_total", "Bytes of bodies appended.");
    describe_counter!("sessionlog_sessions_expired_total", "Sessions that expired.");
    describe_counter!("sessionlog_sessions_reclaimed_total", "Sessions gone after their grace.");
    describe_counter!("sessionlog_scrubs_total", "Times everything was read back.");
    describe_gauge!("sessionlog_scrub_damage", "Damaged places the last of them found.");
    describe_gauge!("sessionlog_search_passages", "Passages that can be found.");
    describe_gauge!("sessionlog_search_parts", "Parts of the search index.");
    describe_gauge!("sessionlog_search_memory_bytes", "Bytes of parts that are in no file.");
    describe_gauge!("sessionlog_search_events_behind", "Events that are not indexed yet.");
    describe_gauge!("sessionlog_search_sessions_unreadable", "Sessions that could not be indexed.");
    describe_counter!("sessionlog_search_files_lost_total", "Files of the index made anew.");
    describe_gauge!("sessionlog_readers", "Streams and long polls open.");
}
