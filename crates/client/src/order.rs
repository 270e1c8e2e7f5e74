//! What operators ask of a member, and who asked: the record of it in announcements, ledgers and JSON.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use types::{Access, Change, InstanceId, PeerRole, Token, format_duration};

use crate::chaos::{Chaos, Way};

/// The longest name that is kept, in bytes: a record of the ledger has room for it.
pub const NAME_BYTES_MAX: usize = 32;

/// The longest time for which `ctl step-down --for` keeps a member from standing.
pub const REST_MAX: Duration = Duration::from_hours(7 * 24);

/// A request of an operator that this member carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ordered {
    pub order: Order,
    /// The election that it concerned.
    pub instance: InstanceId,
    /// What the client's secret allows.
    pub access: Access,
    /// The address of the client's end of the connection.
    pub address: SocketAddr,
    pub name: ClaimedName,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    Elect,
    /// For this time; `None`: as long as every member that steps down.
    StepDown {
        rest_ms: Option<u64>,
    },
    Transfer {
        to: u32,
        hold: bool,
    },
    Chaos(Chaos),
    /// A member is listed in this role. The address is not recorded: a record of the ledger has no room for it.
    ListMember {
        id: u32,
        role: PeerRole,
        priority: u32,
    },
    UnlistMember {
        id: u32,
    },
    AbortChange,
    Bootstrap,
    Reload,
    /// A lock was taken from the holder with this token. The name is not recorded: a record of the ledger has no room for it,
    /// and no two locks ever have the same token.
    Unlock {
        token: Token,
    },
    /// `None`: no longer a priority of the operator's choice.
    Priority {
        value: Option<u32>,
    },
    Pause {
        paused: bool,
    },
}

impl From<&Change> for Order {
    fn from(change: &Change) -> Self {
        match change {
            Change::List(listed) => {
                Order::ListMember { id: listed.uid.id.0, role: listed.role, priority: listed.uid.priority }
            }
            Change::Unlist(id) => Order::UnlistMember { id: id.0 },
            Change::Abort => Order::AbortChange,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |way: Way| match way {
            Way::Both => "to and from",
            Way::Out => "to",
            Way::In => "from",
        };
        let ms = |ms: u64| format_duration(Duration::from_millis(ms));
        match *self {
            Order::Elect => f.write_str("elect"),
            Order::StepDown { rest_ms: None } => f.write_str("step-down"),
            Order::StepDown { rest_ms: Some(time) } => write!(f, "step-down --for {}", ms(time)),
            Order::Transfer { to, hold: false } => write!(f, "transfer to {to}"),
            Order::Transfer { to, hold: true } => write!(f, "transfer to {to} --hold"),
            Order::Chaos(Chaos::Cut { peer, way: w }) => write!(f, "chaos cut {} {peer}", way(w)),
            Order::Chaos(Chaos::Delay { peer, way: w, ms: time }) => {
                write!(f, "chaos delay {} {} {peer}", ms(time), way(w))
            }
            Order::Chaos(Chaos::Heal) => f.write_str("chaos heal"),
            Order::Chaos(Chaos::Pause { ms: time }) => write!(f, "chaos pause {}", ms(time)),
            Order::Chaos(Chaos::Kill) => f.write_str("chaos kill"),
            Order::ListMember { id, role, priority: 0 } => write!(f, "member {id} listed as {role}"),
            Order::ListMember { id, role, priority } => {
                write!(f, "member {id} listed as {role} with priority {priority}")
            }
            Order::UnlistMember { id } => write!(f, "member remove {id}"),
            Order::AbortChange => f.write_str("member abort"),
            Order::Bootstrap => f.write_str("bootstrap"),
            Order::Reload => f.write_str("reload"),
            Order::Unlock { token } => write!(f, "unlock --token {token}"),
            Order::Priority { value: Some(value) } => write!(f, "priority {value}"),
            Order::Priority { value: None } => f.write_str("priority default"),
            Order::Pause { paused: true } => f.write_str("pause"),
            Order::Pause { paused: false } => f.write_str("resume"),
        }
    }
}

/// The name that a client gives itself. Only a claim: clients prove that they know a secret, not who they are. At most
/// [`NAME_BYTES_MAX`] bytes of letters, digits and ASCII punctuation, wherever the text comes from; other characters
/// become `?`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct ClaimedName(String);

impl ClaimedName {
    /// The name of a client that gave none.
    pub const NONE: ClaimedName = ClaimedName(String::new());

    /// `None` if the client gave no name.
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

impl From<&str> for ClaimedName {
    fn from(text: &str) -> Self {
        let plain = |c: char| if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' { c } else { '?' };
        // Cut first: a replaced character is never longer than the character itself.
        ClaimedName(text[..text.floor_char_boundary(NAME_BYTES_MAX)].chars().map(plain).collect())
    }
}

impl From<String> for ClaimedName {
    fn from(text: String) -> Self {
        ClaimedName::from(text.as_str())
    }
}

impl fmt::Display for ClaimedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_name_is_short_and_printable_wherever_it_comes_from() {
        let name = |text: &str| ClaimedName::from(text).0;
        assert_eq!(name("ada@host-1.example"), "ada@host-1.example");
        assert_eq!(name("Zoë Müller"), "Zoë Müller");
        assert_eq!(name("a\nb\u{1b}[31m\u{202e}c\0"), "a?b?[31m?c?");
        assert_eq!(name(&"x".repeat(1000)).len(), NAME_BYTES_MAX);
        assert_eq!(name(&"ö".repeat(1000)).len(), NAME_BYTES_MAX);
        assert_eq!(name(&format!("x{}", "ö".repeat(1000))).len(), NAME_BYTES_MAX - 1);
        assert_eq!((ClaimedName::NONE.get(), ClaimedName::from("").get()), (None, None));
        let bytes = transport::codec::to_vec(&"evil\r\nname, and far longer than any record has room for").unwrap();
        let read: ClaimedName = transport::codec::decode(&bytes).unwrap();
        assert_eq!(read.0, "evil??name, and far longer than ");
    }

    #[test]
    fn orders_are_named_as_the_command_line_names_them() {
        let texts = [
            (Order::Elect, "elect"),
            (Order::StepDown { rest_ms: None }, "step-down"),
            (Order::StepDown { rest_ms: Some(600_000) }, "step-down --for 10m"),
            (Order::Transfer { to: 3, hold: false }, "transfer to 3"),
            (Order::Transfer { to: 3, hold: true }, "transfer to 3 --hold"),
            (Order::Pause { paused: true }, "pause"),
            (Order::Pause { paused: false }, "resume"),
            (Order::Chaos(Chaos::Cut { peer: 2, way: Way::In }), "chaos cut from 2"),
            (Order::Chaos(Chaos::Delay { peer: 2, way: Way::Both, ms: 50 }), "chaos delay 50ms to and from 2"),
            (Order::Chaos(Chaos::Heal), "chaos heal"),
            (Order::Chaos(Chaos::Pause { ms: 1500 }), "chaos pause 1500ms"),
            (Order::Chaos(Chaos::Kill), "chaos kill"),
            (Order::ListMember { id: 6, role: PeerRole::Witness, priority: 0 }, "member 6 listed as witness"),
            (
                Order::ListMember { id: 6, role: PeerRole::Member, priority: 4 },
                "member 6 listed as member with priority 4",
            ),
            (Order::UnlistMember { id: 3 }, "member remove 3"),
            (Order::AbortChange, "member abort"),
            (Order::Bootstrap, "bootstrap"),
            (Order::Reload, "reload"),
            (Order::Unlock { token: Token(7) }, "unlock --token 7"),
            (Order::Priority { value: Some(7) }, "priority 7"),
            (Order::Priority { value: None }, "priority default"),
        ];
        for (order, text) in texts {
            assert_eq!(order.to_string(), text);
        }
    }
}
