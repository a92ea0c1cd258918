//! The web page: three files that are part of the program, as src/page/app builds them. Browsers
//! get the page at `/`, every other client the index of routes. It must not read a session: the
//! page asks the API for everything, as any client does, with the token of the person who uses it.

use std::sync::LazyLock;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
    routing::get,
};

/// Paths of the page's script and style sheet. They are open, as the page is: neither has data.
pub const FILES: [&str; 2] = ["/page/app.js", "/page/app.css"];

/// The page may run its own script, draw with its own style sheet, ask its own server and show
/// pictures that it has already. The browser refuses text that would become markup, too.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Headers of the page and of its files. `nosniff` is on every answer of the server.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // The browser asks each time and gets 304: a new program never meets an old script.
    (header::CACHE_CONTROL, "no-cache"),
];

/// A file of the page.
struct Asset {
    media: &'static str,
    bytes: &'static [u8],
}

const PAGE: Asset =
    Asset { media: "text/html; charset=utf-8", bytes: include_bytes!("dist/index.html") };
const SCRIPT: Asset =
    Asset { media: "text/javascript; charset=utf-8", bytes: include_bytes!("dist/app.js") };
const STYLE: Asset =
    Asset { media: "text/css; charset=utf-8", bytes: include_bytes!("dist/app.css") };

/// The files with their entity tags.
static TAGGED: LazyLock<[(Asset, String); 3]> = LazyLock::new(|| {
    [PAGE, SCRIPT, STYLE].map(|file| {
        let tag = format!("\"{}\"", blake3::hash(file.bytes).to_hex());
        (file, tag)
    })
});

/// Returns the router of the files.
pub fn router() -> Router {
    let [_, script, style] = &*TAGGED;
    let served = FILES.into_iter().zip([script, style]);
    served.fold(Router::new(), |router, (path, (file, tag))| {
        router.route(path, get(async move |headers: HeaderMap| answer(file, tag, &headers)))
    })
}

/// Answers a browser's request for `/` with the page, and passes every other request on.
pub async fn answer_browser(request: Request, next: Next) -> Response {
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    if !(reads && request.uri().path() == "/" && takes_html(request.headers())) {
        return next.run(request).await;
    }
    let [(file, tag), ..] = &*TAGGED;
    let mut response = answer(file, tag, request.headers());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Returns true if the client names HTML among what it takes, as browsers do and programs do not.
fn takes_html(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("text/html"));
        let weight = |part: &str| part.to_ascii_lowercase().strip_prefix("q=")?.parse::<f32>().ok();
        is_html && !parts.any(|part| weight(part) == Some(0.0))
    })
}

fn answer(file: &Asset, tag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tag| tag.to_str().ok());
    let is_known = known
        .flat_map(|tags| tags.split(','))
        .any(|one| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, file.media)], file.bytes).into_response()
    };
    let into = response.headers_mut();
    for (name, value) in HEADERS {
        into.insert(name, HeaderValue::from_static(value));
    }
    into.insert(header::ETAG, HeaderValue::from_str(tag).expect("hex digits may be in a header"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn only_a_client_that_names_html_gets_the_page() {
        for (accept, gets) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, TEXT/HTML;q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("text/html;q=0", false),
            ("text/html; Q=0.000", false),
            ("text/htmlx", false),
        ] {
            assert_eq!(takes_html(&headers(header::ACCEPT, accept)), gets, "{accept}");
        }
        assert!(!takes_html(&HeaderMap::new()));
    }

    #[test]
    fn every_file_has_the_policy_and_is_not_sent_again_while_it_is_known() {
        for (file, tag) in &*TAGGED {
            let first = answer(file, tag, &HeaderMap::new());
            assert_eq!(first.status(), StatusCode::OK, "{}", file.media);
            for (name, value) in HEADERS {
                assert_eq!(first.headers()[&name], value, "{}", file.media);
            }
            for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
                let again = answer(file, tag, &headers(header::IF_NONE_MATCH, &known));
                assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{} {known}", file.media);
                assert_eq!(again.headers()[header::ETAG], **tag, "{}", file.media);
            }
            let changed = answer(file, tag, &headers(header::IF_NONE_MATCH, "\"other\""));
            assert_eq!(changed.status(), StatusCode::OK, "{}", file.media);
        }
    }

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own() {
        let page = std::str::from_utf8(PAGE.bytes).unwrap();
        assert_eq!(page.matches("<script").count(), 1, "one script, by its address");
        assert!(page.contains("<script src=\"/page/app.js\" defer></script>"), "{page}");
        for refused in ["<style", "style=", "onload=", "onerror=", "http://", "https://"] {
            assert!(!page.contains(refused), "{refused}");
        }
    }
}
