//! `/v1/openapi.json`: made of the table of routes.

use serde_json::{Map, Value, json};

use crate::door::Needs;
use crate::routes::{ROUTES, Route, What};

pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        paths.insert(route.path.to_owned(), path(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Conclave",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "One member of a Conclave cluster. Every schema is described in docs/json.md.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": problem_schema()},
        },
    })
}

fn path(route: &Route) -> Value {
    if route.needs == Needs::Order {
        return json!({"post": operation(route, "")});
    }
    json!({"get": operation(route, ""), "head": operation(route, "-head")})
}

fn operation(route: &Route, suffix: &str) -> Value {
    let name = route.path.trim_start_matches('/').replace(['/', '.'], "-");
    let mut operation = json!({
        "operationId": format!("{name}{suffix}"),
        "summary": route.summary,
        "responses": responses(route, !suffix.is_empty()),
    });
    if let Some(fields) = operation.as_object_mut() {
        if let Some(schema) = request_schema(route.what) {
            let content = json!({"application/json": {"schema": schema}});
            fields.insert("requestBody".into(), json!({"required": true, "content": content}));
        }
        match route.needs {
            Needs::Order => _ = fields.insert("security".into(), json!([{"token": []}])),
            // Not needed on the machine of the member.
            Needs::Read | Needs::Stream => _ = fields.insert("security".into(), json!([{}, {"token": []}])),
            Needs::Nothing | Needs::Host => {}
        }
    }
    operation
}

fn responses(route: &Route, is_head: bool) -> Value {
    let kind = match route.what {
        What::Leader | What::Livez | What::Readyz | What::Metrics => "text/plain",
        What::Events => "text/event-stream",
        _ => "application/json",
    };
    let content = |kind: &str, schema: Value| if is_head { json!({}) } else { json!({kind: {"schema": schema}}) };
    let whole = match kind {
        "application/json" => result_schema(route.what),
        _ => json!({"type": "string"}),
    };
    let mut all = Map::new();
    all.insert("200".into(), json!({"description": route.summary, "content": content(kind, whole)}));
    if matches!(route.what, What::Leader | What::Livez | What::Readyz) {
        all.insert("503".into(), json!({"description": "no", "content": content(kind, json!({"type": "string"}))}));
        return Value::Object(all);
    }
    let problem = json!({"$ref": "#/components/schemas/Problem"});
    all.insert(
        "default".into(),
        json!({"description": "a problem", "content": content("application/problem+json", problem)}),
    );
    Value::Object(all)
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    })
}

/// The schema by its name in docs/json.md.
fn result_schema(what: What) -> Value {
    let named =
        |name: &str| json!({"type": "object", "required": ["schema"], "properties": {"schema": {"const": name}}});
    match what {
        What::Status => named("conclave.status/1"),
        What::History => named("conclave.history/1"),
        What::Audit => named("conclave.audit/1"),
        What::Explain => named("conclave.explain/1"),
        What::Locks => named("conclave.locks/1"),
        What::Elect | What::StepDown | What::Transfer => named("conclave.change/1"),
        What::Pause | What::Resume => named("conclave.pause/1"),
        What::Chaos => named("conclave.chaos/1"),
        What::LockOpen | What::LockKeepAlive | What::LockAcquire | What::LockRelease => {
            named("conclave.lock-session/1")
        }
        What::Algorithms => json!({"type": "array", "items": {"type": "object", "required": ["schema", "name"]}}),
        _ => json!({"type": "object"}),
    }
}

fn request_schema(what: What) -> Option<Value> {
    let id = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    let text = json!({"type": "string"});
    let name = json!({"type": "string", "minLength": 1, "maxLength": 256});
    Some(match what {
        What::Elect => object(&json!({"member": or_null(&id)}), &[]),
        What::StepDown => {
            let rest = json!({"type": "integer", "minimum": 1, "maximum": client::REST_MAX.as_millis() as u64});
            object(&json!({"for_ms": or_null(&rest)}), &[])
        }
        What::Transfer => object(&json!({"to": id, "hold": {"type": "boolean"}}), &["to"]),
        What::Pause | What::Resume => object(&json!({}), &[]),
        What::Chaos => json!({"oneOf": faults(&id)}),
        What::LockOpen => {
            let ttl = json!({"type": "integer", "minimum": 1000, "maximum": 300_000});
            object(&json!({"ttl_ms": or_null(&ttl)}), &[])
        }
        What::LockKeepAlive => object(&json!({"session": text}), &["session"]),
        What::LockAcquire => {
            let wait = json!({"type": "integer", "minimum": 0, "maximum": 30_000});
            object(&json!({"session": text, "name": name, "wait_ms": wait}), &["session", "name"])
        }
        What::LockRelease => object(&json!({"session": text, "name": or_null(&text)}), &["session"]),
        _ => return None,
    })
}

/// One schema for each kind of fault.
fn faults(id: &Value) -> Value {
    let ids = json!({"type": "array", "items": id, "minItems": 1, "maxItems": 256});
    let (ms, one_way) = (json!({"type": "integer", "minimum": 0, "maximum": 60_000}), json!({"type": "boolean"}));
    let action = |name: &str| json!({"const": name});
    json!([
        object(&json!({"action": action("cut"), "a": ids, "b": ids, "one_way": one_way}), &["action", "a", "b"]),
        object(
            &json!({"action": action("delay"), "a": ids, "b": ids, "one_way": one_way, "ms": ms}),
            &["action", "a", "b", "ms"],
        ),
        object(&json!({"action": action("pause"), "a": ids, "ms": ms}), &["action", "a", "ms"]),
        object(&json!({"action": action("kill"), "a": ids}), &["action", "a"]),
        object(&json!({"action": action("heal")}), &["action"]),
    ])
}

fn object(properties: &Value, required: &[&str]) -> Value {
    let (kind, more) = ("object", false);
    json!({"type": kind, "properties": properties, "required": required, "additionalProperties": more})
}

fn or_null(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_with_its_methods_and_its_token() {
        let document = document();
        for route in ROUTES {
            let path = &document["paths"][route.path];
            let methods: Vec<&String> = path.as_object().unwrap().keys().collect();
            let expected: Vec<String> = route.allowed().to_ascii_lowercase().split(", ").map(str::to_owned).collect();
            assert_eq!(methods, expected.iter().collect::<Vec<_>>(), "{}", route.path);
            let needs_token = path[&expected[0]]["security"] == json!([{"token": []}]);
            assert_eq!(needs_token, route.needs == Needs::Order, "{}", route.path);
            assert_eq!(path["post"]["requestBody"].is_object(), route.needs == Needs::Order, "{}", route.path);
        }
    }
}
