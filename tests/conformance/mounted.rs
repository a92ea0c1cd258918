//! The product's handler with the fixtures beside it: a name of the suite's is answered here,
//! every other by the product. It must not answer for the product.

// Sampling, roots and logging are deprecated and still part of the suite.
#![allow(deprecated)]

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult,
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
        ReadResourceResponse, ServerConfig, ServerRequest, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use sessionlog::mcp::Handler;
use tokio::sync::broadcast;

use super::{
    asks::{self, Given, Round},
    content::{self, of},
};

type Context = RequestContext<RoleServer>;

/// Time for which a fixture waits between two notifications.
const PAUSE: Duration = Duration::from_millis(50);

/// Notifications of changes, for listeners.
#[derive(Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// State that all connections share.
pub struct Stage {
    changes: broadcast::Sender<Change>,
}

impl Default for Stage {
    fn default() -> Self {
        Self { changes: broadcast::channel(16).0 }
    }
}

/// One connection's handler.
pub struct Mounted {
    product: Handler,
    stage: Arc<Stage>,
}

impl Mounted {
    pub fn new(product: Handler, stage: Arc<Stage>) -> Self {
        Self { product, stage }
    }

    async fn act(
        &self,
        tool: &str,
        context: &Context,
    ) -> Option<Result<CallToolResult, ErrorData>> {
        let done = || Some(Ok(content::text(format!("{tool} is done"))));
        match tool {
            "test_tool_with_logging" | "test_logging_tool" => {
                log(context).await;
                done()
            }
            "test_tool_with_progress" => {
                progress(context).await;
                done()
            }
            "test_missing_capability" => {
                let able = context.client_capabilities().is_some_and(|can| can.sampling.is_some());
                let needed = ClientCapabilities::builder().enable_sampling().build();
                if able {
                    done()
                } else {
                    Some(Err(ErrorData::missing_required_client_capability(needed)))
                }
            }
            "test_trigger_tool_change" => {
                let _nobody_listens = self.stage.changes.send(Change::Tools);
                let _nobody_hears = context.peer.notify_tool_list_changed().await;
                done()
            }
            "test_trigger_prompt_change" => {
                let _nobody_listens = self.stage.changes.send(Change::Prompts);
                let _nobody_hears = context.peer.notify_prompt_list_changed().await;
                done()
            }
            _ => None,
        }
    }
}

async fn pause() {
    let _elapsed = tokio::time::timeout(PAUSE, std::future::pending::<()>()).await;
}

/// Three log lines, for clients that requested them: in the stateless generation by each request.
async fn log(context: &Context) {
    let stateless = context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28);
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if !stateless || context.meta.log_level().is_some() {
            let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            let _nobody_hears = context.peer.notify_logging_message(line).await;
        }
        pause().await;
    }
}

async fn progress(context: &Context) {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _nobody_hears = context.peer.notify_progress(progress).await;
        }
        pause().await;
    }
}

/// Sends a request of the server's; answers what the client said, in words.
async fn ask(peer: &Peer<RoleServer>, tool: &str, request: ServerRequest) -> CallToolResult {
    match peer.send_request(request).await {
        Ok(ClientResult::CreateMessageResult(said)) => {
            let said = serde_json::to_value(&said).expect("a result is JSON");
            let content = said["content"].clone();
            let content = content.as_array().and_then(|all| all.first()).unwrap_or(&content);
            content::text(format!("LLM response: {}", content["text"].as_str().unwrap_or("")))
        }
        Ok(said) => {
            let said = serde_json::to_value(&said).expect("a result is JSON");
            let action = said["action"].as_str().unwrap_or("none");
            let words = format!("action={action}, content={}", said["content"]);
            content::text(match tool {
                "test_elicitation" => format!("User response: {words}"),
                _ => format!("Elicitation completed: {words}"),
            })
        }
        Err(error) => content::failed(error.to_string()),
    }
}

fn given<'a>(
    responses: Option<&'a std::collections::BTreeMap<String, Value>>,
    state: Option<&'a str>,
    context: &Context,
) -> Given<'a> {
    let capabilities = context.client_capabilities().unwrap_or_default();
    Given { responses, state, capabilities }
}

impl ServerHandler for Mounted {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.product.get_info();
        let mut can = serde_json::to_value(&info.capabilities).expect("capabilities are JSON");
        can["logging"] = json!({});
        can["completions"] = json!({});
        // What the product does not declare stays undeclared.
        for (what, more) in
            [("tools", "listChanged"), ("prompts", "listChanged"), ("resources", "subscribe")]
        {
            if let Some(declared) = can.get_mut(what) {
                declared[more] = json!(true);
            }
        }
        info.capabilities = of(can);
        info
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.product.list_tools(page, context).await?;
        listed.tools.extend(content::tools());
        Ok(listed)
    }

    /// The transport looks here for arguments that travel in headers as well.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        content::tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = call.name.clone();
        if let Some(answer) = content::answer(&tool) {
            return Ok(answer.into());
        }
        if let Some(answer) = self.act(&tool, &context).await {
            return answer.map(Into::into);
        }
        let sent = given(call.input_responses.as_ref(), call.request_state.as_deref(), &context);
        match asks::round(&tool, &sent)? {
            Some(Round::Asked(asked)) => return Ok(asked.into()),
            Some(Round::Done(words)) => return Ok(content::text(words).into()),
            None => {}
        }
        let arguments = call.arguments.as_ref();
        let argument = |name: &str| {
            let text = arguments.and_then(|given| given.get(name)).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        match asks::request(&tool, argument) {
            Some(request) => Ok(ask(&context.peer, &tool, request).await.into()),
            None => self.product.call_tool(call, context).await,
        }
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.product.list_prompts(page, context).await?;
        listed.prompts.extend(content::prompts());
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        call: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let sent = given(call.input_responses.as_ref(), call.request_state.as_deref(), &context);
        match asks::round(&call.name, &sent)? {
            Some(Round::Asked(asked)) => return Ok(asked.into()),
            Some(Round::Done(words)) => {
                let message = json!({"role": "user", "content": {"type": "text", "text": words}});
                let result = json!({ "messages": [message] });
                return Ok(content::complete::<GetPromptResult>(result).into());
            }
            None => {}
        }
        let arguments = call.arguments.as_ref();
        let argument = |name: &str| {
            let text = arguments.and_then(|given| given.get(name)).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        match content::prompt(&call.name, argument) {
            Some(prompt) => Ok(prompt.into()),
            None => self.product.get_prompt(call, context).await,
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.product.list_resources(page, context).await?;
        listed.resources.extend(content::resources());
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.product.list_resource_templates(page, context).await?;
        listed.resource_templates.push(of(json!({
            "uriTemplate": "test://template/{id}/data", "name": "template",
            "description": "A fixture", "mimeType": "application/json",
        })));
        Ok(listed)
    }

    async fn read_resource(
        &self,
        asked: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match content::resource(&asked.uri) {
            Some(found) => Ok(found.into()),
            None => self.product.read_resource(asked, context).await,
        }
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.stage.changes.subscribe();
        let sink = context.sink().clone();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let _not_asked_for = match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            };
        }
    }
}
