//! Every mutual exclusion that may run live as one machine: [`AnyMutex`](super::mutex::AnyMutex). The lock service around the
//! machines is compiled once instead of once for each row; [`MutexSettings::machine`](crate::MutexSettings::machine) names
//! the row. The translation is that of elections: `any.rs`.
//!
//! Messages and timers are those of the textbook machine inside. Encoded, messages are the same bytes: which algorithm runs is
//! known from the config, so the reader of bytes asks [`LiveMutex::read_message`](super::mutex::LiveMutex::read_message).

use super::LinkNumber;
use crate::view::TypedLink;
use types::Topology;

impl TypedLink for LinkNumber {
    /// Of most machines. A ring's is told by [`Mutex::topology`](crate::Mutex::topology).
    const TOPOLOGY: Topology = Topology::Mesh;

    fn number(self) -> u32 {
        self.0
    }

    fn numbered(number: u32) -> Option<Self> {
        Some(LinkNumber(number))
    }
}

/// [`AnyMutex`](super::mutex::AnyMutex), and what mutual exclusions alone have.
macro_rules! any_mutex {
    ($($variant:ident: $machine:ty;)*) => {
        any_machine! {
            AnyMutex named LiveMutex by machine,
            AnyMutexMessage, AnyMutexTimer, (), Want, Section, MutexSettings;
            $($variant: $machine;)*
        }

        impl Mutex for AnyMutex {
            fn topology(machine: Option<LiveMutex>) -> Topology {
                match machine {
                    $(Some(LiveMutex::$variant) => <$machine>::topology(machine),)*
                    None => Topology::Mesh,
                }
            }

            fn shares(machine: Option<LiveMutex>) -> bool {
                match machine {
                    $(Some(LiveMutex::$variant) => <$machine>::SHARED,)*
                    None => false,
                }
            }

            fn stage(&self) -> Stage {
                match self { $(AnyMutex::$variant(machine) => machine.stage()),* }
            }

            fn clock(&self) -> Option<u64> {
                match self { $(AnyMutex::$variant(machine) => machine.clock()),* }
            }

            fn stamp(&self) -> Option<Stamp> {
                match self { $(AnyMutex::$variant(machine) => machine.stamp()),* }
            }

            fn heard(&mut self, time: u64) {
                match self { $(AnyMutex::$variant(machine) => machine.heard(time)),* }
            }
        }
    };
}
