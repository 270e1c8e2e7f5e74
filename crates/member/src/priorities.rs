//! Priorities that change while members run. Every heartbeat carries its sender's priority, and a member tells all
//! members to which it is connected when its own priority changes. What a member was told replaces the priority of the
//! list in its view: a round is held with the priorities that its members know when they enter it, and a claim carries the
//! priority with which its leader won. Members that disagree for a moment may elect two winners in a round; classic epochs
//! are ranked by id and grants are by majority, so those two never share an epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use algorithms::{Ctx, NodeId, Uid, View};

use crate::messages::Context;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Priorities {
    /// What this member was told, by its driver of itself and by other members of themselves.
    told: BTreeMap<NodeId, u32>,
    /// The driver's view with these priorities; `None` while the list has the same.
    view: Option<Arc<View>>,
}

impl Priorities {
    /// Returns whether the view changes. Members outside the list have no priority.
    pub(crate) fn tell(&mut self, list: &View, id: NodeId, priority: u32) -> bool {
        let now = self.view.as_deref().unwrap_or(list).uid(id);
        if now.is_none() || self.told.insert(id, priority) == Some(priority) {
            return false;
        }
        self.rebuild(list);
        now.is_some_and(|uid| uid.priority != priority)
    }

    /// This member has the priority of the list again. Returns whether the view changes.
    pub(crate) fn forget(&mut self, list: &View, id: NodeId) -> bool {
        let before = self.told.remove(&id);
        self.rebuild(list);
        before.is_some() && before != list.uid(id).map(|uid| uid.priority)
    }

    /// The driver replaces the list: members that are gone are forgotten.
    pub(crate) fn reseat(&mut self, list: &View) {
        self.told.retain(|&id, _| list.contains(id));
        self.rebuild(list);
    }

    fn rebuild(&mut self, list: &View) {
        let now = |uid: Uid| Uid { priority: self.told.get(&uid.id).copied().unwrap_or(uid.priority), ..uid };
        let differs = list.members().iter().any(|&uid| now(uid) != uid);
        self.view = differs.then(|| Arc::new(list.ranked(now)));
    }

    /// `None`: the driver's view.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.clone()
    }

    /// What this member said of itself; `None` if it has said nothing, as members that have never been connected.
    pub(crate) fn said(&self, id: NodeId) -> Option<Uid> {
        self.told.get(&id).map(|&priority| Uid { priority, id })
    }
}

/// The same with the priorities of this view.
pub(crate) fn ranked<'a>(ctx: &Context<'a>, view: Option<&'a View>) -> Context<'a> {
    let view = view.unwrap_or(ctx.view);
    Ctx { me: view.uid(ctx.me.id).unwrap_or(ctx.me), view, settings: ctx.settings, dice: ctx.dice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(priorities: &Priorities, list: &View) -> Vec<String> {
        priorities.view().as_deref().unwrap_or(list).members().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_members_say_replaces_the_list_until_the_list_changes() {
        let list = View::mesh(vec![Uid { priority: 4, id: NodeId(1) }, Uid::plain(2), Uid::plain(3)]);
        let mut known = Priorities::default();
        assert!(!known.tell(&list, NodeId(1), 4), "as listed");
        assert!(known.view().is_none());
        assert!(known.tell(&list, NodeId(2), u32::MAX));
        assert!(!known.tell(&list, NodeId(2), u32::MAX), "told before");
        assert!(!known.tell(&list, NodeId(9), 1), "not in the list");
        assert_eq!(members(&known, &list), ["4:1", "4294967295:2", "3"]);
        assert_eq!((known.said(NodeId(2)).map(|uid| uid.priority), known.said(NodeId(3))), (Some(u32::MAX), None));
        let shorter = View::mesh(vec![Uid::plain(3), Uid::plain(2)]);
        known.reseat(&shorter);
        assert_eq!(members(&known, &shorter), ["3", "4294967295:2"]);
        assert!(known.forget(&shorter, NodeId(2)) && known.view().is_none());
        assert!(!known.forget(&shorter, NodeId(2)));
    }
}
