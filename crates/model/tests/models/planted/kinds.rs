//! The bugs of each machine as one type, and the machines with them. `Sound` among them is the machine as it ships.

use algorithms::catalog::AnyElection;
use algorithms::election::raft::Raft;
use member::reign::Reign;
use member::{Classic, Member, Quorum};

use super::list_bugs::{
    AdoptsOlder, AnyList, ByNumber, ChangesTwice, CountsInFile, CountsRemoved, ForgetsList, HalfTells, LearnersTell,
    NoAffirmation, OldMajority, StampsBids,
};
use super::member_bugs::{
    DropsAlgorithmRecord, DropsRecord, EndsPromises, LeadsOn, LeavesChildren as MembersLeave, NoDisk, WrongCause,
};
use super::raft_bugs::{ForgetsVote, SendsBeforeWriting};
use super::reign_bugs::{
    AnyEpoch, AnyIncarnation, AnyRequest, AsksNoVoter, AsksOnce, Childless, ClosesFrees, CountsAll, Fickle, FreesFirst,
    FromReply, Guesses, NoSettling, Resumes, Stays, Unwritten,
};
use super::term_election::TermElection;
use super::write_bugs::{
    AckBeforeWrite, BlamesConnections, BlamesLease, BlamesOperator, CountsLateAnswers, HandsOverSilently,
    LeaseBehindWrite, LeaseFromWrite, LeavesChildren, PromiseBeforeWrite,
};
use crate::wrapper::{Planted, one_of};

pub(crate) type Voter = Planted<Reign, ReignBug>;
pub(crate) type ClassicMember = Planted<Member<AnyElection, Classic>, ClassicBug>;
pub(crate) type QuorumMember = Planted<Member<AnyElection, Quorum>, QuorumBug>;
pub(crate) type Terms = Planted<TermElection, TermBug>;
pub(crate) type TermMember = Planted<Member<TermElection, Classic>, TermMemberBug>;
pub(crate) type RaftNode = Planted<Raft, RaftBug>;

one_of! {
    ReignBug[] for Reign:
    // Of grants and leases.
    Unwritten, FromReply, AnyRequest, AnyIncarnation, NoSettling, Guesses, Fickle, AsksOnce, AnyEpoch, FreesFirst,
    Resumes, Stays, CountsAll, ClosesFrees, Childless, AsksNoVoter,
    // While a write is in flight, of children, and of causes.
    AckBeforeWrite, LeaseFromWrite, LeaseBehindWrite, PromiseBeforeWrite, CountsLateAnswers, LeavesChildren,
    BlamesLease, BlamesOperator, BlamesConnections, HandsOverSilently,
    // Of lists.
    ByNumber, NoAffirmation, StampsBids, ChangesTwice, OldMajority, ForgetsList, AnyList, AdoptsOlder, CountsRemoved,
    HalfTells, CountsInFile, LearnersTell,
}

one_of!(ClassicBug[] for Member<AnyElection, Classic>: NoDisk, MembersLeave, WrongCause);
one_of!(QuorumBug[] for Member<AnyElection, Quorum>: NoDisk, MembersLeave, WrongCause, EndsPromises, LeadsOn);
one_of!(TermBug[] for TermElection: DropsRecord);
one_of!(TermMemberBug[] for Member<TermElection, Classic>: DropsAlgorithmRecord);
one_of!(RaftBug[] for Raft: SendsBeforeWriting, ForgetsVote);
