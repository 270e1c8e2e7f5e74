//! The thread of the HTTP face, where the config gives this member one: its own runtime, its own table of open files, a lower
//! priority than the event loop's.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use client::{ClientSettings, ClusterFile, Endpoint, Keyring, MemberStatus, Members, Standing};
use face::{Figures, Shown, Tokens};
use tokio::sync::{mpsc as questions, oneshot};
use types::{InstanceId, NodeId, since_boot};

use crate::config::Config;
use crate::descriptors;
use crate::visible_state::VisibleState;

/// Questions of the face that wait for the event loop.
const QUESTIONS: usize = 16;
/// A member that has not answered the face by then is unreachable.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(1);
/// Most of it is never touched; builds without optimisation need much.
const STACK: usize = 2 << 20;
/// Elections come first where processors are short: by so much this thread is nicer than the event loop's. Less nice than the last
/// thread to exit (see `descriptors`).
const NICER: i32 = 5;
const NICE_MAX: i32 = 18;

/// Questions of the HTTP face to the event loop.
pub(crate) type Questions = questions::Receiver<oneshot::Sender<Figures>>;

/// The face, seen from the event loop.
#[derive(Debug)]
pub(crate) struct HttpFace {
    window: Arc<Window>,
    pub(crate) tokens: Tokens,
    /// The face waits until there is something to show.
    begin: mpsc::Sender<()>,
}

/// What the face sees of the daemon, which begins anew when its volume is found to be old.
#[derive(Debug, Default)]
struct Window(Mutex<Option<Seen>>);

#[derive(Clone, Debug)]
struct Seen {
    state: Arc<VisibleState>,
    questions: questions::Sender<oneshot::Sender<Figures>>,
}

impl HttpFace {
    /// `None` where the config gives this member no face. Called before the event loop opens its first socket.
    pub(crate) fn start(config: &Config, id: NodeId, keyring: &Keyring, most: usize) -> anyhow::Result<Option<Self>> {
        let Some((http, listen)) = config.http_addresses(id) else { return Ok(None) };
        let members = members(config, keyring);
        let tokens = Tokens::new(config.http_tokens()?);
        let settings = face::Settings { http, tokens: tokens.clone(), members, connections_max: most };
        // Made here: the event loop wakes it, so both tables of open files must have its descriptors.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let window = Arc::new(Window::default());
        let (begin, may_begin) = mpsc::channel();
        let (bound, is_bound) = mpsc::channel();
        let shown: Arc<dyn Shown> = Arc::clone(&window) as Arc<dyn Shown>;
        let address = listen.clone();
        descriptors::spawn_with_stack("http", STACK, move || {
            let listener = TcpListener::bind(&address);
            let problem = listener.as_ref().err().map(ToString::to_string);
            let _ = bound.send(problem);
            yield_to_elections();
            let (Ok(listener), Ok(())) = (listener, may_begin.recv()) else { return };
            let Err(error) = runtime.block_on(face::serve(settings, shown, listener));
            tracing::error!(%error, "the HTTP face ended");
        })?;
        match is_bound.recv().map_err(|_| anyhow!("the thread of the HTTP face ended"))? {
            None => Ok(Some(HttpFace { window, tokens, begin })),
            Some(problem) => Err(anyhow!(problem))
                .with_context(|| format!("cannot listen on {listen} for HTTP: is another process there?")),
        }
    }

    /// From now on the face shows this state, and asks the holder of these questions.
    pub(crate) fn show(&self, state: Arc<VisibleState>) -> Questions {
        let (sender, receiver) = questions::channel(QUESTIONS);
        *self.window.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seen { state, questions: sender });
        // The face that has begun needs no second word.
        let _ = self.begin.send(());
        receiver
    }
}

/// Without it the face works as well.
fn yield_to_elections() {
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, (nice + NICER).min(NICE_MAX));
    }
}

impl Window {
    fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().expect("shown before the face begins")
    }
}

impl Shown for Window {
    fn standing(&self) -> Standing {
        self.seen().state.standing()
    }

    fn lease_left(&self) -> Option<Duration> {
        self.seen().state.lease_left(since_boot())
    }

    fn status(&self) -> MemberStatus {
        self.seen().state.status()
    }

    fn ask(&self, answer: oneshot::Sender<Figures>) -> bool {
        self.seen().questions.try_send(answer).is_ok()
    }
}

/// The members of the config; a member that is to be added knows addresses of some.
fn members(config: &Config, keyring: &Keyring) -> Members {
    let listed = config.peers.iter().map(|peer| Endpoint::member(peer.id.0, peer.address.clone()));
    let endpoints: Vec<Endpoint> =
        listed.chain(config.join.iter().map(|address| Endpoint::new(None, address.clone()))).collect();
    let file = ClusterFile {
        name: config.name.clone(),
        topology: Some(config.topology),
        algorithm: Some(config.row.name.to_owned()),
        safety: config.safety,
        secret_file: None,
        secret_permissions: config.secret_permissions,
        tls: None,
        peers: endpoints.clone(),
        voters: config.first_list().voters().map(|id| id.0).collect(),
    };
    let settings = ClientSettings { cluster: config.name.clone(), keyring: keyring.clone(), deadline: MEMBER_TIMEOUT };
    Members::new(endpoints, settings, MEMBER_TIMEOUT, Some(file), InstanceId::ELECTION)
}
