//! What a transcript says, short enough for people: any value, from its debug form.

/// A value as its debug form shows it.
#[derive(Clone, Debug)]
enum Value {
    Atom(String),
    /// `Name(value, ...)` and `[value, ...]`, whose name is empty.
    List(String, Vec<Value>),
    Fields(String, Vec<(String, Value)>),
}

/// Ids as plain numbers, holders as `id#incarnation`, claims as `id@epoch`; nothing that is `None` or false. `ids`: of
/// the members, by position.
pub(crate) fn short(value: &impl std::fmt::Debug, ids: &[u32]) -> String {
    let text = format!("{value:?}");
    let mut rest = text.as_str();
    show(&parse(&mut rest), ids)
}

fn parse(rest: &mut &str) -> Value {
    let end = rest.find(['(', ')', '[', ']', '{', '}', ',', ':']).unwrap_or(rest.len());
    let name = rest[..end].trim().to_owned();
    *rest = &rest[end..];
    match rest.chars().next() {
        Some('(' | '[') => {
            let mut items = Vec::new();
            *rest = &rest[1..];
            while !closes(rest) {
                items.push(parse(rest));
            }
            Value::List(name, items)
        }
        Some('{') => {
            let mut fields = Vec::new();
            *rest = &rest[1..];
            while !closes(rest) {
                let colon = rest.find(':').expect("a field has a value");
                let field = rest[..colon].trim().to_owned();
                *rest = &rest[colon + 1..];
                fields.push((field, parse(rest)));
            }
            Value::Fields(name, fields)
        }
        _ => Value::Atom(name),
    }
}

/// Passes over a comma, or over the bracket that closes: then it is true.
fn closes(rest: &mut &str) -> bool {
    *rest = rest.trim_start_matches([',', ' ']);
    let closed = rest.starts_with([')', ']', '}']);
    if closed {
        *rest = &rest[1..];
    }
    closed
}

fn show(value: &Value, ids: &[u32]) -> String {
    match value {
        Value::Atom(text) => text.clone(),
        Value::List(name, items) => show_list(name, items, ids),
        Value::Fields(name, fields) => show_fields(name, fields, ids),
    }
}

fn show_list(name: &str, items: &[Value], ids: &[u32]) -> String {
    let shown: Vec<String> = items.iter().map(|item| show(item, ids)).collect();
    match (name, items) {
        ("NodeSet", [Value::List(_, words)]) => {
            let word = |at: usize| show(&words[at / 64], ids).parse::<u64>().unwrap_or(0);
            let members = (0..ids.len()).filter(|&at| word(at) & 1 << (at % 64) != 0);
            format!("{{{}}}", members.map(|at| ids[at].to_string()).collect::<Vec<_>>().join(" "))
        }
        ("NodeId" | "Epoch" | "Attempt" | "Some" | "Beat" | "Authority" | "Algorithm", [_]) => shown[0].clone(),
        _ => format!("{name}({})", shown.join(", ")),
    }
}

fn show_fields(name: &str, fields: &[(String, Value)], ids: &[u32]) -> String {
    let get = |wanted: &str| {
        let found = fields.iter().find(|(field, _)| field == wanted);
        found.map(|(_, value)| show(value, ids)).unwrap_or_default()
    };
    match name {
        "Uid" => get("id"),
        "Incarnation" => get("counter"),
        "Holder" => format!("{}#{}", get("id"), get("incarnation")),
        // The first list is the same in every message.
        "Stamp" if get("epoch") == "0" => "None".to_owned(),
        "Stamp" => format!("{}.{}", get("epoch"), get("n")),
        "MemberList" if get("stamp") == "None" => "None".to_owned(),
        "MemberList" => {
            format!("{}{}", get("stamp"), get("members").replace(',', "").replace('(', "{").replace(')', "}"))
        }
        // There is no lock service.
        "LockPast" if get("longest_ttl") == "0ns" => "None".to_owned(),
        "Listed" if get("role") == "Member" => get("uid"),
        "Listed" => format!("{} ({})", get("uid"), get("role").to_lowercase()),
        "Claim" => format!("{}@{}", get("uid"), get("epoch")),
        "Released" => format!("{}@..={}", get("holder"), get("epoch")),
        "News" => list(fields, ids),
        "Beat" => {
            let stands = if get("stands") == "true" { "" } else { ", does not stand" };
            let ask = if get("ask") == "true" { ", asks" } else { "" };
            let setbacks = match get("setbacks").as_str() {
                "0" => String::new(),
                some => format!(", setbacks {some}"),
            };
            format!("Beat#{}{{{}{stands}{ask}{setbacks}}}", get("incarnation"), get("news"))
        }
        "Standing" => {
            let leader = get("leader");
            let of = if leader == "None" { String::new() } else { format!(" of {leader}") };
            format!("{}{of}, epoch {}", get("role"), get("epoch"))
        }
        "Became" => format!("Became {} ({})", get("now"), get("cause")),
        "Record" => get("authority"),
        "BeliefRecord" | "QuorumRecord" => format!("Record{{{}}}", list(fields, ids)),
        "Round" if !get("message").is_empty() => {
            format!("{} in {} {}", get("message"), get("round"), get("participants"))
        }
        "Round" => format!("round {}/{}#{}", get("attempt"), get("initiator"), get("incarnation")),
        "Join" => format!("Join {} {}", get("round"), get("participants")),
        _ => format!("{name}{{{}}}", list(fields, ids)),
    }
}

fn list(fields: &[(String, Value)], ids: &[u32]) -> String {
    let said = fields.iter().filter_map(|(field, value)| match (field.as_str(), show(value, ids).as_str()) {
        (_, "None" | "false") => None,
        (_, "true") => Some(field.clone()),
        ("next_attempt_min", number) => Some(format!("next {number}")),
        (_, value) => Some(format!("{} {value}", field.replace('_', " "))),
    });
    said.collect::<Vec<_>>().join(", ")
}

#[test]
fn values_are_told_in_short() {
    use algorithms::{Epoch, NodeId, Uid};
    use member::reign::{Holder, Msg, Released};
    use member::{Attempt, Beat, Claim, FullPos, Incarnation, News, NodeSet};

    let holder = Holder { id: NodeId(3), incarnation: Incarnation { counter: 1, nonce: 77 } };
    let after = Some(Released { holder, epoch: Epoch(4) });
    let probe = Msg::Probe { request: 2, holder, after, list: crate::reigns::list() };
    assert_eq!(short(&probe, &[3]), "Probe{request 2, holder 3#1, after 3#1@..=4}");
    let leader = Some(Claim { epoch: Epoch(5), uid: Uid::plain(3) });
    let news = News { next_attempt_min: Attempt(4), leader, firsthand: false };
    let beat =
        Beat { news, stands: true, ask: false, incarnation: 1, setbacks: 0, priority: 0, mode: None, hold: None };
    assert_eq!(short(&beat, &[3]), "Beat#1{next 4, leader 3@5}");
    let some: NodeSet = [0, 2].map(FullPos).into_iter().collect();
    assert_eq!(short(&some, &[7, 8, 9]), "{7 9}");
}
