//! The event streams of all members, merged. Nothing is polled: a report is made when an event arrives, and a lost
//! member is dialled again with growing pauses.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use transport::ClientSettings;

use crate::announcement::{Announcement, Transition};
use crate::ask::within;
use crate::connection::{Client, ClientError};
use crate::endpoint::Endpoint;
use crate::verdict::{Electorate, Verdict, View};
use crate::watch::Watched;
use types::Safety;

const REDIAL_MIN: Duration = Duration::from_millis(10);
const REDIAL_MAX: Duration = Duration::from_millis(250);

/// An event on the stream of one endpoint.
#[derive(Debug)]
pub struct Report {
    /// The endpoint, by its position in the list.
    pub at: usize,
    /// When it reached this process.
    pub when: Instant,
    pub news: News,
}

#[derive(Debug)]
pub enum News {
    /// A change of standing, or the present standing at the beginning of a stream.
    Became { announcement: Announcement, transition: Transition },
    /// Any other announcement, where everything is followed.
    Announced(Announcement),
    /// This many announcements were dropped, because this process did not read fast enough.
    Gap { missed: u64 },
    /// The stream broke, or could not be opened. Reported once per outage, and again when the kind of failure changes.
    Lost(ClientError),
}

/// Follows many members at once. Dropping it ends all streams.
#[derive(Debug)]
pub struct Observer {
    endpoints: Vec<Endpoint>,
    views: Vec<Option<View>>,
    /// Has the endpoint answered or failed at least once?
    tried: Vec<bool>,
    safety: Arc<OnceLock<Safety>>,
    reports: mpsc::UnboundedReceiver<Report>,
    _followers: JoinSet<()>,
}

impl Observer {
    /// Begins to follow; `settings.deadline` bounds each attempt to connect.
    pub fn new(endpoints: Vec<Endpoint>, settings: &ClientSettings) -> Self {
        Observer::start(endpoints, settings, false)
    }

    /// Follows all announcements of the members, not only changes of standing.
    pub fn of_everything(endpoints: Vec<Endpoint>, settings: &ClientSettings) -> Self {
        Observer::start(endpoints, settings, true)
    }

    fn start(endpoints: Vec<Endpoint>, settings: &ClientSettings, everything: bool) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let mut followers = JoinSet::new();
        let safety = Arc::default();
        for (at, endpoint) in endpoints.iter().enumerate() {
            let (endpoint, settings) = (endpoint.clone(), settings.clone());
            let source = Source { endpoint, settings, everything, safety: Arc::clone(&safety) };
            followers.spawn(follow(at, source, sender.clone()));
        }
        let nobody = vec![None; endpoints.len()];
        let untried = vec![false; endpoints.len()];
        Observer { endpoints, views: nobody, tried: untried, safety, reports, _followers: followers }
    }

    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The next report of any member. Cancel-safe; without endpoints it waits for ever.
    pub async fn next(&mut self) -> Report {
        let Some(report) = self.reports.recv().await else { return std::future::pending().await };
        self.tried[report.at] = true;
        match &report.news {
            News::Became { announcement, transition } => {
                self.views[report.at] = Some(View::after(announcement.member, transition));
            }
            News::Lost(_) => self.views[report.at] = None,
            News::Announced(_) | News::Gap { .. } => {}
        }
        report
    }

    /// The last views of the members; members out of reach are missing.
    pub fn views(&self) -> Vec<View> {
        self.views.iter().flatten().copied().collect()
    }

    /// The last view of one endpoint.
    pub fn view(&self, at: usize) -> Option<View> {
        self.views[at]
    }

    /// The endpoint at which this member answered.
    pub fn position_of(&self, member: u32) -> Option<usize> {
        self.views.iter().position(|view| view.is_some_and(|view| view.id == member))
    }

    /// Drops the view of an endpoint, when the caller has newer knowledge: it has just killed the member.
    pub fn forget(&mut self, at: usize) {
        self.views[at] = None;
    }

    /// Has every endpoint answered or failed at least once?
    pub fn all_tried(&self) -> bool {
        self.tried.iter().all(|tried| *tried)
    }

    /// The safety of the cluster, once any member has reported it.
    pub fn safety(&self) -> Option<Safety> {
        self.safety.get().copied()
    }

    pub fn verdict(&self, electorate: &Electorate) -> Verdict {
        Verdict::of(&self.views(), electorate)
    }

    /// The leader that all reachable members agree on, with its epoch.
    pub fn agreed(&self) -> Option<(u32, u64)> {
        self.verdict(&Electorate::Anybody).leader()
    }

    /// Waits until the views satisfy the condition, beginning with the present ones. Returns the report that made it
    /// true, if any was needed. No time limit: put one around it.
    pub async fn until(&mut self, mut satisfied: impl FnMut(&Observer) -> bool) -> Option<Report> {
        let mut last = None;
        while !satisfied(self) {
            last = Some(self.next().await);
        }
        last
    }

    /// Waits until all endpoints are reachable and agree on one leader.
    pub async fn until_all_agree(&mut self) -> (u32, u64) {
        self.until(|observer| observer.views.iter().all(Option::is_some) && observer.agreed().is_some()).await;
        self.agreed().expect("just agreed")
    }
}

/// The source of one stream.
struct Source {
    endpoint: Endpoint,
    settings: ClientSettings,
    everything: bool,
    safety: Arc<OnceLock<Safety>>,
}

async fn follow(at: usize, source: Source, reports: mpsc::UnboundedSender<Report>) {
    let report = |news| reports.send(Report { at, when: Instant::now(), news }).is_ok();
    let mut pause = REDIAL_MIN;
    let mut said: Option<std::mem::Discriminant<ClientError>> = None;
    loop {
        let mut events = 0u64;
        let lost = stream(&source, |watched| {
            events += 1;
            let news = match watched {
                Watched::Gap { missed } => News::Gap { missed },
                Watched::Announced(announcement) => match announcement.transition() {
                    Some(&transition) => News::Became { announcement, transition },
                    None => News::Announced(announcement),
                },
            };
            report(news);
        })
        .await;
        if events > 0 {
            pause = REDIAL_MIN;
            said = None;
        }
        let kind = std::mem::discriminant(&lost);
        if said.replace(kind) != Some(kind) && !report(News::Lost(lost)) {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

/// Connects and passes on events until the stream ends; returns the reason.
async fn stream(source: &Source, mut take: impl FnMut(Watched)) -> ClientError {
    let opened = within(source.settings.deadline, async {
        let client = Client::connect_to(&source.endpoint, &source.settings).await?;
        if let Some(safety) = client.member_fact("safety").and_then(|safety| safety.parse().ok()) {
            source.safety.get_or_init(|| safety);
        }
        let mut watch = if source.everything { client.watch_everything().await? } else { client.watch().await? };
        let first = watch.next().await?;
        Ok((watch, first))
    });
    let (mut watch, mut event) = match opened.await {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    while let Some(known) = event {
        take(known);
        event = match watch.next().await {
            Ok(event) => event,
            Err(error) => return error,
        };
    }
    ClientError::Closed
}
