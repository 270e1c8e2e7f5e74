//! Messages and records of members, and messages of their lock services, as bytes. Which algorithm runs is in no byte: the config tells it.

use algorithms::Protocol;
use algorithms::catalog::mutex::{AnyMutexMessage, LiveMutex};
use algorithms::catalog::{Algorithm, AnyElection, AnyMessage, LinkNumber, Reader};
use anyhow::bail;
use locks::views::messages::ViewsMsg;
use member::{Authority, Envelope, Record};
use serde::de::DeserializeOwned;
use transport::codec::{self, CodecError};

use crate::records::{self, Kept};

pub type Sent<A> = Envelope<LinkNumber, AnyMessage, <A as Protocol>::Message>;
pub type MemberRecord<A> = Record<<A as Protocol>::Durable, <AnyElection as Protocol>::Durable>;

/// `newer`: of a version that may have added fields at the end.
struct Bytes<'a> {
    bytes: &'a [u8],
    newer: bool,
}

impl Reader for Bytes<'_> {
    type Error = CodecError;

    fn read<T: DeserializeOwned>(self) -> Result<T, CodecError> {
        if self.newer { codec::decode_newer(self.bytes) } else { codec::decode(self.bytes) }
    }
}

/// Reads a message of another member. `newer`: the sender speaks a later version, which may have added fields at the end.
pub fn read<A: Authority>(algorithm: Algorithm, bytes: &[u8], newer: bool) -> Result<Sent<A>, CodecError> {
    // The algorithm's message is the last field of its envelope.
    let (envelope, rest): (Envelope<LinkNumber, (), A::Message>, _) = codec::decode_head(bytes)?;
    if !newer && !rest.is_empty() && envelope.algorithm_message().is_none() {
        return Err(CodecError::Trailing { extra: rest.len() });
    }
    envelope.with_message(|()| algorithm.read_message(Bytes { bytes: rest, newer }))
}

/// Reads a message of the lock service of another member.
pub fn read_locks(machine: LiveMutex, bytes: &[u8]) -> Result<ViewsMsg<LinkNumber, AnyMutexMessage>, CodecError> {
    // The algorithm's message is the last field, here as well.
    let (message, rest): (ViewsMsg<LinkNumber, ()>, _) = codec::decode_head(bytes)?;
    if !rest.is_empty() && !matches!(message, ViewsMsg::InView { .. }) {
        return Err(CodecError::Trailing { extra: rest.len() });
    }
    message.with_message(|()| machine.read_message(Bytes { bytes: rest, newer: false }))
}

pub fn encode<A: Authority>(Record { authority, algorithm, mode }: &MemberRecord<A>) -> Kept {
    Kept {
        authority: records::encode(codec::to_vec(authority)),
        algorithm: algorithm.as_ref().map(|record| records::encode(codec::to_vec(record))),
        mode: mode.as_ref().map(|mode| records::encode(codec::to_vec(mode))),
    }
}

pub fn decode<A: Authority>(algorithm: Algorithm, kept: &Kept) -> anyhow::Result<MemberRecord<A>> {
    let read = |bytes| algorithm.read_record(Bytes { bytes, newer: false });
    let of_algorithm = kept.algorithm.as_deref().map(read).transpose();
    let mode = kept.mode.as_deref().map(codec::decode).transpose();
    match (codec::decode(&kept.authority), of_algorithm, mode) {
        (Ok(authority), Ok(algorithm), Ok(mode)) => Ok(Record { authority, algorithm, mode }),
        _ => bail!("the state file holds a record that this version cannot read: start the version that wrote it"),
    }
}

#[cfg(test)]
mod tests {
    use algorithms::catalog::mutex;
    use algorithms::election::{bully, chang_roberts, echo};
    use algorithms::mutex::{ricart_agrawala, token_ring};
    use algorithms::{Edge, Link, NodeId, Side, Uid, catalog};
    use locks::LockName;
    use locks::views::messages::ViewId;
    use member::{Attempt, Classic, FullPos, Round};
    use serde::Serialize;
    use types::Token;

    use super::*;

    fn envelope<L, M>(link: L, message: M) -> Envelope<L, M, ()> {
        let round = Round { attempt: Attempt(300), initiator: NodeId(4), incarnation: 7 };
        let participants = [0, 2].map(FullPos).into_iter().collect();
        Envelope::Round { round, list: types::Stamp::FIRST, participants, link, hops: 9, message }
    }

    /// The bytes are those of the textbook machine's own types, and are read again as its message.
    fn same_bytes<L: Link, M: Serialize>(name: &str, link: L, number: u32, message: M, any: AnyMessage) {
        let typed = codec::to_vec(&envelope(link, message)).unwrap();
        assert_eq!(codec::to_vec(&envelope(LinkNumber(number), any.clone())).unwrap(), typed, "{name}");
        let algorithm = catalog::row(name).unwrap().algorithm;
        let Ok(Envelope::Round { link, hops: 9, message, .. }) = read::<Classic>(algorithm, &typed, false) else {
            panic!("{name}: cannot be read")
        };
        assert_eq!((link, message), (LinkNumber(number), any), "{name}");
        let longer = [&typed[..], &[1]].concat();
        assert!(read::<Classic>(algorithm, &longer, false).is_err(), "{name}: bytes follow");
        assert!(read::<Classic>(algorithm, &longer, true).is_ok(), "{name}: a later version added a field");
        assert!(read::<Classic>(algorithm, &typed[..typed.len() - 1], false).is_err(), "{name}: cut off");
    }

    #[test]
    fn a_message_has_the_bytes_of_its_algorithm_and_no_name_of_it() {
        let answer = bully::Msg::Answer;
        same_bytes("bully", NodeId(70_000), 70_000, answer, AnyMessage::Bully(answer));
        let probe = chang_roberts::Msg::Probe(Uid::plain(900));
        for (side, number) in [(Side::Left, 0), (Side::Right, 1)] {
            same_bytes("chang-roberts", side, number, probe, AnyMessage::ChangRoberts(probe));
        }
        let wave = echo::Msg::Leader(Uid::plain(3));
        same_bytes("echo", Edge(NodeId(3)), 3, wave, AnyMessage::Echo(wave));
    }

    /// As above, of a machine of the lock service.
    fn same_lock_bytes<L: Link, M: Serialize>(name: &str, link: L, number: u32, message: M, any: AnyMutexMessage) {
        fn in_view<L, M>(link: L, message: M) -> ViewsMsg<L, M> {
            let view = ViewId { epoch: types::Epoch(900), number: 3 };
            ViewsMsg::InView { view, name: LockName::new("a").unwrap(), link, message }
        }
        let typed = codec::to_vec(&in_view(link, message)).unwrap();
        let any = in_view(LinkNumber(number), any);
        assert_eq!(codec::to_vec(&any).unwrap(), typed, "{name}");
        let machine = mutex::live(mutex::row(name).unwrap()).unwrap();
        assert_eq!(read_locks(machine, &typed).unwrap(), any, "{name}");
        assert!(read_locks(machine, &[&typed[..], &[1]].concat()).is_err(), "{name}: bytes follow");
        assert!(read_locks(machine, &typed[..typed.len() - 1]).is_err(), "{name}: cut off");
    }

    #[test]
    fn a_message_of_the_lock_service_has_the_bytes_of_its_algorithm_and_no_name_of_it() {
        let reply = ricart_agrawala::Msg::Reply { to: 7, time: 300, token: Token(70_000) };
        let name = "ricart-agrawala";
        same_lock_bytes(name, NodeId(70_000), 70_000, reply, AnyMutexMessage::RicartAgrawala(reply));
        let pass = token_ring::Pass(Token(5));
        for (side, number) in [(Side::Left, 0), (Side::Right, 1)] {
            same_lock_bytes("token-ring", side, number, pass, AnyMutexMessage::TokenRing(pass));
        }
        let knock: ViewsMsg<NodeId, ()> = ViewsMsg::Knock { apart: vec![NodeId(4)] };
        let knock = codec::to_vec(&knock).unwrap();
        let machine = mutex::live(mutex::row("raymond").unwrap()).unwrap();
        assert!(matches!(read_locks(machine, &knock), Ok(ViewsMsg::Knock { apart }) if apart == [NodeId(4)]));
        assert!(read_locks(machine, &[&knock[..], &[1]].concat()).is_err());
    }
}
