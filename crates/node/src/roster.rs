//! The members that this process knows: the newest member list that it has heard of, and itself.

use std::sync::Arc;

use algorithms::{NodeId, Topology, Uid, View};
use member::Settings;
use types::{Listed, MemberList, PeerRole};

use crate::config::{self, PEERS_MAX};

/// All instances of this process have the same members, in the same order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roster {
    list: Arc<MemberList>,
    /// The list, and this member as a learner if the list does not have it.
    members: Vec<Listed>,
    me: Uid,
}

impl Roster {
    pub(crate) fn new(list: Arc<MemberList>, id: NodeId) -> Self {
        let mut members = list.members.clone();
        if !list.contains(id) {
            // A member outside a full list is no part of it, so one of the others may be missing here.
            members.truncate(PEERS_MAX - 1);
            members.push(Listed { uid: Uid::plain(id.0), role: PeerRole::Learner, address: String::new() });
        }
        let me = list.get(id).map_or(Uid::plain(id.0), |listed| listed.uid);
        Roster { list, members, me }
    }

    pub(crate) fn list(&self) -> &Arc<MemberList> {
        &self.list
    }

    /// This member, with the priority that the list gives it.
    pub(crate) fn me(&self) -> Uid {
        self.me
    }

    /// Is this member in the list?
    pub(crate) fn is_listed(&self) -> bool {
        self.list.contains(self.me.id)
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Listed> {
        self.members.iter().find(|listed| listed.uid.id == id)
    }

    /// The ids in the order of the view's positions.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().map(|listed| listed.uid.id)
    }

    pub(crate) fn id_at(&self, position: usize) -> Option<NodeId> {
        self.members.get(position).map(|listed| listed.uid.id)
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &Listed> + '_ {
        self.members.iter().filter(|listed| listed.uid.id != self.me.id)
    }

    /// Ids and addresses of all other members, for the transport.
    pub(crate) fn peers(&self) -> Vec<(u32, String)> {
        self.others().map(|listed| (listed.uid.id.0, listed.address.clone())).collect()
    }

    /// `links`: of a graph.
    pub(crate) fn view(&self, topology: Topology, links: &[(NodeId, NodeId)]) -> View {
        config::view(self.members.iter().map(|listed| listed.uid).collect(), topology, links)
    }

    /// What the machines need to know of the list besides the view.
    pub(crate) fn put_into(&self, settings: &mut Settings) {
        let with_role = |role| self.members.iter().filter(move |listed| listed.role == role);
        settings.witnesses = with_role(PeerRole::Witness).map(|listed| listed.uid.id).collect();
        settings.election.learners = with_role(PeerRole::Learner).map(|listed| listed.uid.id).collect();
        settings.list = Arc::clone(&self.list);
    }
}

#[cfg(test)]
mod tests {
    use types::Stamp;

    use super::*;

    fn list(ids: impl Iterator<Item = u32>) -> Arc<MemberList> {
        let listed =
            |id| Listed { uid: Uid { priority: 7, id: NodeId(id) }, role: PeerRole::Member, address: String::new() };
        Arc::new(MemberList { stamp: Stamp::FIRST, members: ids.map(listed).collect() })
    }

    #[test]
    fn a_member_outside_the_list_is_a_learner_at_its_end() {
        let inside = Roster::new(list(1..=3), NodeId(2));
        assert_eq!((inside.me().priority, inside.ids().map(|id| id.0).collect::<Vec<_>>()), (7, vec![1, 2, 3]));
        let outside = Roster::new(list(1..=3), NodeId(9));
        assert_eq!((outside.me().priority, outside.ids().map(|id| id.0).collect::<Vec<_>>()), (0, vec![1, 2, 3, 9]));
        let mut settings = Settings::default();
        outside.put_into(&mut settings);
        assert_eq!((settings.election.learners, settings.list.members.len()), (vec![NodeId(9)], 3));
        assert_eq!(outside.peers().len(), 3);
        assert_eq!(Roster::new(list(1..=256), NodeId(999)).ids().count(), PEERS_MAX);
        assert_eq!(Roster::new(Arc::default(), NodeId(9)).ids().collect::<Vec<_>>(), [NodeId(9)]);
    }
}
