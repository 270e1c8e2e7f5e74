//! Frames between clients and members, mutated: none panics, none makes more of a few bytes than they can hold.
//! `CONCLAVE_FUZZ_CASES` sets the number of cases; a failure prints its number, which is its seed.

use client::{
    Announcement, Call, CallId, Cause, Chaos, ElectionCost, ElectionName, FailCode, Happened, InstanceId, KindCount,
    LedgerEntry, LedgerKind, LedgerPage, LedgerProof, ListPart, MemberStatus, Reply, Request, Response, Role, Standing,
    Transition, Way,
};
use transport::codec;
use types::{Change, Dice, Epoch, Listed, MemberList, Membership, NodeId, PeerRole, Stamp, Uid};

/// A pair of empty strings is two bytes on the wire and two `String`s in memory; eight times the input is reserved.
const GROWTH: usize = 64;

fn listed() -> Listed {
    Listed { uid: Uid::plain(6), role: PeerRole::Witness, address: "n6:7400".into() }
}

fn calls() -> Vec<Vec<u8>> {
    let chaos = [
        Request::Chaos(Chaos::Delay { peer: 3, way: Way::In, ms: 50 }),
        Request::Chaos(Chaos::Cut { peer: 3, way: Way::Both }),
    ];
    let others = [
        Request::History { after: Some(u64::MAX) },
        Request::ChangeMembers(Change::List(listed())),
        Request::ChangeMembers(Change::Unlist(NodeId(3))),
    ];
    let requests = Request::ALL.iter().cloned().chain(chaos).chain(others);
    let call = |request| Call { id: CallId(70_000), instance: InstanceId(256), request };
    requests.map(|request| codec::to_vec(&call(request)).unwrap()).collect()
}

fn replies() -> Vec<Vec<u8>> {
    let now = Standing { role: Role::Leader, leader: Some(NodeId(3)), epoch: Epoch(1 << 34) };
    let became = Transition { old: Some(Role::Candidate), now, cause: Cause::Elected, lease_until_ns: Some(9) };
    let kind = KindCount { kind: "election".into(), announcement: false, count: 7 };
    let election = ElectionName::Round { attempt: 7, initiator: 3, incarnation: 2 };
    let cost = ElectionCost { election, participants: vec![1, 2, 3], initiator: true, sent: vec![kind] };
    let announced = [
        Happened::Became(became),
        Happened::Elected(cost.clone()),
        Happened::Faults(vec!["cut to 3".into()]),
        Happened::Link { peer: 3, up: true },
        Happened::InForce { list: Stamp::new(Epoch(7), 1), voters: vec![1, 2, 3] },
    ];
    let announcement = |what| {
        let (member, instance) = (1, InstanceId::ELECTION);
        Response::Announced(Announcement { member, instance, sequence: 9, wall_ms: 1, boot_ns: 2, what })
    };
    let entry = LedgerEntry { sequence: 1, wall_ms: 2, boot_ns: 3, boot_id: [4; 16], kind: LedgerKind::Became(became) };
    let part = ListPart::split(Stamp::new(Epoch(7), 1), &[1, 2, 3]).remove(0);
    let adopted = LedgerEntry { kind: LedgerKind::Adopted(part), ..entry.clone() };
    let (entries, troubles) = (vec![entry.clone(), adopted, entry], vec!["damaged".into()]);
    let page = LedgerPage { entries, more: true, troubles, proof: LedgerProof::default() };
    let status = MemberStatus { election: Some(cost), faults: vec!["cut".into()], ..MemberStatus::example() };
    let others = [
        Response::Status(Box::new(status)),
        Response::Failed { reason: "no".into(), code: FailCode::Refused },
        Response::History(page),
        Response::Gap { missed: 3 },
        Response::Members(Membership {
            known: MemberList { stamp: Stamp::new(Epoch(7), 1), members: vec![listed(); 3] },
            on_disk: Some(Stamp::FIRST),
            in_force: Some(Stamp::FIRST),
            pending: None,
            ready: vec![NodeId(1), NodeId(2)],
        }),
    ];
    let all = announced.map(announcement).into_iter().chain(others);
    all.map(|response| codec::to_vec(&Reply { to: CallId(1), response }).unwrap()).collect()
}

/// What a decoded value holds in memory, by its lists and strings.
fn held(reply: &Reply) -> usize {
    let strings = |all: &[String]| all.iter().map(|text| size_of::<String>() + text.capacity()).sum::<usize>();
    let cost = |cost: &ElectionCost| {
        let kinds = cost.sent.iter().map(|kind| size_of::<KindCount>() + kind.kind.capacity());
        kinds.sum::<usize>() + cost.participants.capacity() * 4
    };
    match &reply.response {
        Response::History(page) => {
            let part = |entry: &LedgerEntry| match &entry.kind {
                LedgerKind::Adopted(part) | LedgerKind::InForce(part) | LedgerKind::Forced(part) => {
                    part.voters.capacity() * 4
                }
                _ => 0,
            };
            let parts: usize = page.entries.iter().map(part).sum();
            page.entries.len() * size_of::<LedgerEntry>() + parts + strings(&page.troubles)
        }
        Response::Members(membership) => {
            let members = &membership.known.members;
            let listed = members.iter().map(|listed| size_of::<Listed>() + listed.address.capacity());
            listed.sum::<usize>() + membership.ready.capacity() * 4
        }
        Response::Failed { reason, .. } => reason.capacity(),
        Response::Announced(Announcement { what: Happened::Faults(faults), .. }) => strings(faults),
        Response::Announced(Announcement { what: Happened::Elected(elected), .. }) => cost(elected),
        Response::Announced(Announcement { what: Happened::InForce { voters, .. }, .. }) => voters.capacity() * 4,
        Response::Status(status) => {
            strings(&status.faults) + status.election.as_ref().map_or(0, cost) + status.peers.len() * 32
        }
        _ => 0,
    }
}

fn mutated(dice: &mut Dice, honest: &[Vec<u8>]) -> Vec<u8> {
    let at = dice.below(honest.len());
    dice.mutated(&honest[at])
}

#[test]
fn mutated_calls_and_replies_are_refused_or_read_within_bounds() {
    let (calls, replies) = (calls(), replies());
    let cases = testkit::number("CONCLAVE_FUZZ_CASES", 100_000);
    let (mut read, mut refused) = (0_u64, 0_u64);
    for case in 0..cases {
        let mut dice = Dice(case);
        let bytes = mutated(&mut dice, &calls);
        let call = codec::decode::<Call>(&bytes);
        let bytes = mutated(&mut dice, &replies);
        let reply = codec::decode::<Reply>(&bytes);
        if let Ok(reply) = &reply {
            let most = GROWTH * bytes.len().max(64);
            assert!(held(reply) <= most, "case {case}: {} bytes out of {}", held(reply), bytes.len());
        }
        for ok in [call.is_ok(), reply.is_ok()] {
            read += u64::from(ok);
            refused += u64::from(!ok);
        }
    }
    println!("{cases} cases: {read} frames read, {refused} refused");
    assert!(read > cases / 100 && refused > cases / 100, "{read} read, {refused} refused");
}
