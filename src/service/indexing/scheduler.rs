//! Schedules the updates of indexes: tenants take turns, and so do the scopes of each. It must not
//! update an index, nor read how much work it has.

use std::{collections::HashMap, sync::Arc};

use super::scope::ScopeIndex;
use crate::{
    env::sync::Mutex,
    event::{Scope, TenantId},
};

/// Last turn of each tenant and scope.
#[derive(Default)]
pub(crate) struct Scheduler(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    count: u64,
    tenants: HashMap<TenantId, u64>,
    scopes: HashMap<Scope, u64>,
}

impl Scheduler {
    /// Returns the next index to update, among those with work, and records its turn.
    pub(crate) fn next(
        &self,
        with_work: impl Iterator<Item = Arc<ScopeIndex>>,
    ) -> Option<Arc<ScopeIndex>> {
        let mut turns = self.0.lock();
        let next = with_work.min_by_key(|index| {
            let of_tenant = turns.tenants.get(&index.scope.tenant);
            [of_tenant, turns.scopes.get(&index.scope)]
                .map(|turn| turn.copied().unwrap_or_default())
        })?;
        turns.count += 1;
        let turn = turns.count;
        turns.tenants.insert(next.scope.tenant.clone(), turn);
        turns.scopes.insert(next.scope.clone(), turn);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::content::PartContent, *};
    use crate::event::UserId;

    fn index(tenant: &str, user: &str) -> Arc<ScopeIndex> {
        let tenant = TenantId::new(tenant).expect("a tenant");
        let scope = Scope { tenant, user: UserId::new(user).expect("a user") };
        Arc::new(ScopeIndex::new(scope, PartContent::Words))
    }

    #[test]
    fn a_tenant_with_many_scopes_alternates_with_a_tenant_of_one_scope() {
        let scheduler = Scheduler::default();
        let all = [index("a", "1"), index("a", "2"), index("a", "3"), index("b", "1")];
        let turns: Vec<String> = (0..8)
            .filter_map(|_| scheduler.next(all.iter().cloned()))
            .map(|index| format!("{}{}", index.scope.tenant, index.scope.user))
            .collect();
        assert_eq!(turns, ["a1", "b1", "a2", "b1", "a3", "b1", "a1", "b1"]);
        assert!(scheduler.next(std::iter::empty()).is_none());
    }
}
