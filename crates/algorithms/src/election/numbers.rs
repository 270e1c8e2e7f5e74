//! Small numbers from ids, for the synchronous algorithms that count with them. The best id has the smallest number.

use crate::view::View;
use types::{Uid, Wins};

/// The number of each member. If the lowest id wins it is the id itself. If the highest wins, ids are counted down from
/// it, and it has the number `first`, the smallest of the published algorithm.
pub(crate) fn numbering(members: &[Uid], wins: Wins, first: u32) -> impl Fn(Uid) -> u32 {
    let highest = members.iter().map(|m| m.id.0).max().unwrap_or(0);
    move |of| match wins {
        Wins::Lowest => of.id.0,
        Wins::Highest => highest.saturating_sub(of.id.0).saturating_add(first),
    }
}

/// Are all numbers at most `limit`?
pub(crate) fn check(view: &View, wins: Wins, first: u32, limit: u32) -> Result<(), String> {
    // Ids are unique: more members than numbers never fit, and a large ring need not be searched.
    if view.len() > limit as usize + 1 {
        return Err(format!("{} members, but their numbers must not exceed {limit}", view.len()));
    }
    let number = numbering(view.members(), wins, first);
    for &member in view.members() {
        if member.priority != 0 {
            return Err(format!("member {} has a priority; this algorithm counts with plain ids", member.id));
        }
        if number(member) > limit {
            return Err(format!("member {} has the number {}, the limit is {limit}", member.id, number(member)));
        }
    }
    Ok(())
}
