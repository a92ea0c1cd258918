//! The index view in its three shapes. It must not cut or order anything: the verb has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{
    find::FindAnswer,
    overview::{OverviewAnswer, PageAnswer},
};

/// The index view: the overview, with `cursor` a page of one of its lists, or with `find` what
/// matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum IndexAnswer {
    /// Without `find`.
    Overview(Box<OverviewAnswer>),
    /// With `find`.
    Found(FindAnswer),
    /// With `cursor`.
    Page(PageAnswer),
}

impl From<OverviewAnswer> for IndexAnswer {
    fn from(view: OverviewAnswer) -> Self {
        Self::Overview(Box::new(view))
    }
}

impl From<PageAnswer> for IndexAnswer {
    fn from(page: PageAnswer) -> Self {
        Self::Page(page)
    }
}
