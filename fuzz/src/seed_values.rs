//! Honest values: the first inputs, which the fuzzer mutates.

use client::{Call, CallId, FailCode, MemberStatus, Reply, Request, Response};
use transport::codec;
use types::InstanceId;

/// `(target, name, bytes)`
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    all.extend(crate::transcripts().into_iter().map(|(name, bytes)| ("envelope", name, bytes)));
    for request in Request::ALL {
        let call = Call { id: CallId(7), instance: InstanceId::ELECTION, request: request.clone() };
        all.push(("request", request.name().to_owned(), encoded(&call)));
    }
    let replies = [
        ("status", Response::Status(Box::new(MemberStatus::example()))),
        ("failed", Response::Failed { reason: "no".to_owned(), code: FailCode::Refused }),
        ("gap", Response::Gap { missed: 3 }),
    ];
    for (name, response) in replies {
        all.push(("request", format!("reply-{name}"), encoded(&Reply { to: CallId(7), response })));
    }
    let mut number = |target: &'static str, values: Vec<Vec<u8>>| {
        all.extend(values.into_iter().enumerate().map(|(at, bytes)| (target, format!("honest-{at}"), bytes)));
    };
    number("hello", transport::fuzzing::seeds());
    number("frame", transport::fuzzing::seeds());
    number("state", node::storage::fuzz_seeds());
    number("ledger", node::ledger::fuzz_seeds());
    number("config", crate::configs::seeds());
    all
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    codec::to_vec(value).expect("an honest value can be written")
}
