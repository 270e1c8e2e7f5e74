//! The files of the dashboard, inside the binary.

use hyper::StatusCode;
use hyper::body::Bytes;

use crate::answer::{Answer, whole};

/// Path, kind and content.
pub(crate) type Asset = (&'static str, &'static str, &'static [u8]);

/// The path of the dashboard.
pub(crate) const PAGE: &str = "/";

pub(crate) const ASSETS: &[Asset] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    ("/assets/app.js", "text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
    ("/assets/election.js", "text/javascript; charset=utf-8", include_bytes!("../assets/election.js")),
    ("/assets/icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
    ("/assets/locks.js", "text/javascript; charset=utf-8", include_bytes!("../assets/locks.js")),
    ("/assets/log.js", "text/javascript; charset=utf-8", include_bytes!("../assets/log.js")),
    ("/assets/members.js", "text/javascript; charset=utf-8", include_bytes!("../assets/members.js")),
    ("/assets/net.js", "text/javascript; charset=utf-8", include_bytes!("../assets/net.js")),
    ("/assets/orders.js", "text/javascript; charset=utf-8", include_bytes!("../assets/orders.js")),
    ("/assets/page.js", "text/javascript; charset=utf-8", include_bytes!("../assets/page.js")),
    ("/assets/spacetime.js", "text/javascript; charset=utf-8", include_bytes!("../assets/spacetime.js")),
    ("/assets/style.css", "text/css; charset=utf-8", include_bytes!("../assets/style.css")),
    ("/assets/timeline.js", "text/javascript; charset=utf-8", include_bytes!("../assets/timeline.js")),
    ("/assets/topology.js", "text/javascript; charset=utf-8", include_bytes!("../assets/topology.js")),
    ("/assets/words.js", "text/javascript; charset=utf-8", include_bytes!("../assets/words.js")),
];

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|(known, ..)| *known == path)
}

/// Where the page carries the state.
const FIRST: &str = "<script type=\"application/json\" id=\"first\">";

/// The page, with the document of `/v1/status` inside it, so that it shows the state before it has asked for anything. The browser
/// runs nothing of that kind of script, so the policy has nothing against it.
pub(crate) fn page(&(_, kind, content): &'static Asset, status: Option<&Bytes>) -> Answer {
    let text = str::from_utf8(content).unwrap_or_default();
    let status = status.and_then(|status| str::from_utf8(status).ok());
    let (Some(status), Some((before, after))) = (status, text.split_once(FIRST)) else {
        return whole(StatusCode::OK, kind, Bytes::from_static(content));
    };
    let body = [before, FIRST, &within_html(status.trim_end()), after].concat();
    whole(StatusCode::OK, kind, body.into())
}

/// JSON inside an element of HTML: nothing in it ends the element. These characters are in strings alone.
fn within_html(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

pub(crate) fn answer(&(_, kind, content): &'static Asset) -> Answer {
    whole(StatusCode::OK, kind, Bytes::from_static(content))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_all_of_them_are_small() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let paths = files.map(|name| if name == "index.html" { "/".to_owned() } else { format!("/assets/{name}") });
        let paths: Vec<String> = paths.collect();
        let unknown: Vec<&String> = paths.iter().filter(|path| find(path).is_none()).collect();
        assert!(unknown.is_empty() && paths.len() == ASSETS.len(), "not served: {unknown:?}");
        let bytes: usize = ASSETS.iter().map(|(_, _, content)| content.len()).sum();
        assert!(bytes <= 100_000, "{bytes} bytes");
    }

    #[test]
    fn the_page_carries_the_status_and_no_name_in_it_ends_its_element() {
        let body = |status: Option<&Bytes>| match page(find("/").unwrap(), status).into_body() {
            crate::body::Body::Whole(bytes) => String::from_utf8(bytes.into()).unwrap(),
            crate::body::Body::Stream(_) => panic!("a page is whole"),
        };
        let status = Bytes::from("{\"cluster\":\"</script><script>&\"}\n");
        let told = body(Some(&status));
        let carried = told.split_once(FIRST).unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(carried, "{\"cluster\":\"\\u003c/script\\u003e\\u003cscript\\u003e\\u0026\"}");
        let plain: serde_json::Value = serde_json::from_slice(&status).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(carried).unwrap(), plain);
        assert!(body(None).contains(&format!("{FIRST}</script>")));
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_nothing_that_its_policy_forbids() {
        for (path, _, content) in ASSETS {
            let text = str::from_utf8(content).unwrap();
            let outside = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http://") && !outside.contains("https://"), "{path} names another origin");
            assert!(!text.contains(" style=") && !text.contains("innerHTML"), "{path}");
        }
    }
}
