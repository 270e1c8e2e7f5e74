//! The files of the dashboard, inside the binary.

use hyper::StatusCode;
use hyper::body::Bytes;

use crate::answer::{Answer, whole};

/// Path, kind and content.
type Asset = (&'static str, &'static str, &'static [u8]);

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
    fn the_page_loads_nothing_from_elsewhere_and_has_nothing_that_its_policy_forbids() {
        for (path, _, content) in ASSETS {
            let text = str::from_utf8(content).unwrap();
            let outside = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http://") && !outside.contains("https://"), "{path} names another origin");
            assert!(!text.contains(" style=") && !text.contains("innerHTML"), "{path}");
        }
    }
}
