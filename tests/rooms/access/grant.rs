//! Grants of a credential, formatted and parsed.

use sessionlog::access::{Grant, Grants};

#[test]
fn admin_implies_every_tenant_grant_and_no_server_grant() {
    let admin: Grants = [Grant::Admin].into_iter().collect();
    for grant in [Grant::Read, Grant::Write, Grant::Delete, Grant::Admin] {
        assert!(admin.has(grant), "{grant:?}");
        assert!(!Grants::default().with_grant(Grant::Operator).has(grant), "{grant:?}");
    }
    assert!(!admin.has(Grant::Operator) && Grants::ALL.has(Grant::Operator));
    let writes = Grants::default().with_grant(Grant::Write);
    assert!(!writes.has(Grant::Read) && writes.to_string() == "write");
}
