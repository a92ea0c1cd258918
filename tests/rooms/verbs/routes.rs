//! Registration of routes.

use sessionlog::{
    access::Grant,
    verbs::{RequiredGrant, Route, RouteTable},
};

const READ: Route = Route::get("/a", "readA", RequiredGrant::Grant(Grant::Read));
const HOLD: Route = Route::put("/a", "holdA", RequiredGrant::Grant(Grant::Admin));

fn registered() -> RouteTable {
    let mut all = RouteTable::default();
    all.add(READ);
    all.add(HOLD);
    all
}

#[test]
fn a_request_needs_the_grant_that_its_route_declares() {
    for (method, path, need) in [
        ("GET", "/a", READ.need),
        ("HEAD", "/a", READ.need),
        ("PUT", "/a", HOLD.need),
        ("DELETE", "/a", RequiredGrant::Credential),
        ("GET", "/a/hold", RequiredGrant::Grant(Grant::Operator)),
    ] {
        assert_eq!(registered().need(method, path), need, "{method} {path}");
    }
    assert!(HOLD.is_audited() && !READ.is_audited());
}

#[test]
#[should_panic(expected = "readA is registered twice")]
fn a_route_is_registered_once() {
    registered().add(READ);
}
