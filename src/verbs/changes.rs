//! The verb that names the sessions that changed a file. It must not look for them.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use super::{
    AnswerReader, NoParams, RequiredGrant, Route, Serve, Verb, VerbCall, Visit,
    tools::{Tool, Toolset},
};
use crate::{
    api::changes::{FileChanges, FileChangesQuery},
    service::ServiceResult,
};

/// Number of changes that a model receives by default.
const CHANGES_OF_MODEL: usize = 30;

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<FindFileChanges>();
}

pub struct FindFileChanges;

impl Verb for FindFileChanges {
    const ROUTE: Route = Route::get("/v1/file-changes", "findFileChanges", RequiredGrant::READ);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Why a file is as it is: the sessions that changed it, each change \
                                 with the request that a person made before. It reads the newest \
                                 200 sessions of the file's repository, and of none.";
    const ANSWERS: &'static str = "The changes, by session";
    const TOOL: Option<Tool> = Some(Tool::for_verb::<Self>(
        "find_file_changes",
        "Find out why a file was changed",
        Toolset::Workspace,
    ));
    type Params = NoParams;
    type Query = FileChangesQuery;
    type Body = ();
    type Answer = FileChanges;
}

impl Serve for FindFileChanges {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<FileChanges> {
        let VerbCall { service, caller, mut query, reader, .. } = call;
        if reader == AnswerReader::Model {
            query.limit.get_or_insert(CHANGES_OF_MODEL);
        }
        service.file_changes(&caller, query).await
    }
}
