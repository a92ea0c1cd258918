//! The conformance suite: what a `Store` promises, run against every engine. It must not know how
//! an engine keeps its bytes.

use std::sync::Arc;

use sessionlog::{
    env::sim::Sim,
    event::Scope,
    store::{Listing, Store, model::Model},
};

fn model() -> Arc<dyn Store> {
    let env = Sim::new(1).env();
    Arc::new(Model::new(env.clock, env.entropy))
}

#[tokio::test]
async fn a_new_store_has_no_session() {
    let sessions = model().list(&Scope::local(), Listing::default()).await.unwrap();
    assert_eq!(sessions, []);
}
