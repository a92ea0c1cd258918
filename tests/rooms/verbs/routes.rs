//! Registration of routes.

use sessionlog::{
    access::Grant,
    verbs::{Need, Registered, Route},
};

const READ: Route = Route::get("/a", "readA", Need::Grant(Grant::Read));
const HOLD: Route = Route::put("/a", "holdA", Need::Grant(Grant::Admin));

fn registered() -> Registered {
    let mut all = Registered::default();
    all.add(READ);
    all.add(HOLD);
    all
}

#[test]
fn a_request_needs_what_its_route_declares() {
    for (method, path, need) in [
        ("GET", "/a", READ.need),
        ("HEAD", "/a", READ.need),
        ("PUT", "/a", HOLD.need),
        ("DELETE", "/a", Need::Credential),
        ("GET", "/a/hold", Need::Grant(Grant::Operator)),
    ] {
        assert_eq!(registered().need(method, path), need, "{method} {path}");
    }
    assert!(HOLD.audited() && !READ.audited());
}

#[test]
#[should_panic(expected = "readA is registered twice")]
fn a_route_is_registered_once() {
    registered().add(READ);
}
