//! `open`: the page in a browser. Where only an owner started on demand serves the store, its
//! connections pass through a loopback port of this process. It must not read what passes.

use std::net::Ipv4Addr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::{
    args,
    config::Config,
    failure::{CliError, Outcome},
    screen::Screen,
    signals,
};
use crate::{
    client::{Client, ClientError, escape_path_segment},
    verbs::{NoParams, NoQuery, SessionPath, admin::GetOwner, sessions::GetSession},
};

pub(super) async fn run(
    client: &Client,
    wanted: &args::OpenArgs,
    config: &Config,
    screen: &mut Screen,
) -> Outcome {
    if let Some(session) = &wanted.session {
        let place = SessionPath { session: session.clone() };
        client.call::<GetSession>(&place, &NoQuery {}, &()).await?;
    }
    let served = match &config.url {
        Some(url) => Some(url.to_string()),
        None => client.call::<GetOwner>(&NoParams {}, &NoQuery {}, &()).await?.url,
    };
    if let Some(url) = served {
        return show(&url, wanted, screen);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let stop = signals::stop_signal()?;
    show(&format!("http://{}", listener.local_addr()?), wanted, screen)?;
    if !screen.json {
        screen.print_line("  stop      Ctrl-C")?;
        screen.flush()?;
    }
    tokio::select! {
        () = stop => Ok(()),
        error = pass_connections(client, &listener) => Err(error),
    }
}

/// Prints the address of the page, and opens a browser on it.
fn show(url: &str, wanted: &args::OpenArgs, screen: &mut Screen) -> Outcome {
    let session = wanted.session.as_ref();
    let place = session.map(|session| format!("#/s/{}", escape_path_segment(session.as_str())));
    let address = format!("{}/{}", url.trim_end_matches('/'), place.unwrap_or_default());
    if screen.json {
        screen.print_json(&serde_json::json!({ "url": address }))?;
    } else {
        screen.print_line(&address)?;
    }
    screen.flush()?;
    if !wanted.no_browser
        && !screen.json
        && let Err(error) = ::open::that_detached(&address)
    {
        screen.print_note(format!("no browser was opened ({error}); open the address yourself"));
    }
    Ok(())
}

/// Passes connections to the owner until none can be accepted. One that cannot reach the owner is
/// closed: the page says so and tries again.
async fn pass_connections(client: &Client, listener: &TcpListener) -> CliError {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(pass(client.clone(), stream))),
            Err(error) => return error.into(),
        }
    }
}

async fn pass(client: Client, mut stream: TcpStream) -> Result<(), ClientError> {
    let mut owner = client.connect_to_owner().await?;
    // A connection ends when either side ends it.
    let _ = copy_bidirectional(&mut stream, &mut owner).await;
    Ok(())
}
