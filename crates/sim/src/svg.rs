//! The SVG that pictures need: text that is safe to embed, colours, and a page that works in dark mode.

use std::fmt::Write;

/// Distinct on white and on black, also for most colour-blind readers (Okabe and Ito).
pub(crate) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#666666"];

pub(crate) fn colour(nth: usize) -> &'static str {
    COLOURS[nth % COLOURS.len()]
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Wraps a body into a page of that size.
pub(crate) fn page(width: f64, height: f64, title: &str, body: &str) -> String {
    let mut svg = String::new();
    let _ = write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" font-family="system-ui, sans-serif" font-size="12">
<title>{}</title>
<style>
  text {{ fill: #222 }} .bg {{ fill: #fff }} .line {{ stroke: #999 }} .grid {{ stroke: #e3e3e3 }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #ddd }} .bg {{ fill: #16181c }} .line {{ stroke: #777 }} .grid {{ stroke: #33363c }}
  }}
</style>
<rect class="bg" width="100%" height="100%"/>
{body}</svg>
"#,
        escape(title)
    );
    svg
}

pub(crate) fn text(x: f64, y: f64, anchor: &str, content: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(content))
}
