//! A change of one member's standing, as tests look at it.

use client::{Cause, News, Role};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub id: u32,
    pub role: Role,
    pub leader: Option<u32>,
    pub epoch: u64,
    pub cause: Cause,
}

impl Change {
    /// `None`: the news is no change of standing.
    pub fn of(news: &News) -> Option<Self> {
        let News::Became { announcement, transition } = news else { return None };
        let (role, epoch) = (transition.now.role, transition.now.epoch.0);
        Some(Change { id: announcement.member, role, leader: transition.leader(), epoch, cause: transition.cause })
    }
}
