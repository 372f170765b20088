//! In which format a page is wanted, by the `Accept` of whoever asks for it (RFC 9110, 12.5.1).
//!
//! Versions are not looked at: each format is written in one, and says in which. Of protobuf there are several encodings; another one than ours is
//! another format.
//!
//! Not here: the formats.
//!
//! Invariant: there is always an answer; for whom nothing of ours will do, the text of Prometheus, which is what scrapers fall back to.

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `application/vnd.google.protobuf`: families of metrics, each behind its length.
    Protobuf,
}

impl Format {
    /// All of them; where a reader takes several equally, the first.
    pub const ALL: [Self; 3] = [Self::Prometheus, Self::OpenMetrics, Self::Protobuf];

    /// The `Content-Type` of a page.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The one that this `Accept` likes best: by quality, then by how exactly it is named, then by the order there, then by our own.
    pub fn accepted(accept: &str) -> Self {
        let ranges: Vec<Range<'_>> = accept.split(',').filter_map(Range::of).collect();
        let mut best: Option<(Rank, Self)> = None;
        for format in Self::ALL {
            // What names it most exactly decides, even if that says no.
            let named = ranges.iter().enumerate().filter_map(|(at, range)| {
                let exactness = range.exactness(format)?;
                Some((exactness, range.quality, usize::MAX - at))
            });
            let Some((exactness, quality, early)) = named.max() else { continue };
            let rank = (quality, exactness, early);
            if quality > 0 && best.is_none_or(|(best, _)| rank > best) {
                best = Some((rank, format));
            }
        }
        best.map_or(Self::Prometheus, |(_, format)| format)
    }

    fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Prometheus => ("text", "plain"),
            Self::OpenMetrics => ("application", "openmetrics-text"),
            Self::Protobuf => ("application", "vnd.google.protobuf"),
        }
    }
}

/// Quality, exactness, how early it stands.
type Rank = (u16, u8, usize);

/// A quality of 1.
const THOUSAND: f32 = 1000.0;

/// One part of an `Accept`.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// Whether `proto` and `encoding` are those that we write.
    is_our_encoding: bool,
    /// In thousandths; 0: it must not be.
    quality: u16,
}

impl<'a> Range<'a> {
    /// `None`: it is none, and says nothing.
    fn of(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let (mut quality, mut proto, mut encoding) = (1.0, "", "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => quality = value.parse::<f32>().ok()?,
                name if name.eq_ignore_ascii_case("proto") => proto = value,
                name if name.eq_ignore_ascii_case("encoding") => encoding = value,
                _ => {}
            }
        }
        if !(0.0..=1.0).contains(&quality) {
            return None;
        }
        let is_our_encoding =
            proto == "io.prometheus.client.MetricFamily" && encoding == "delimited";
        Some(Self { kind, subtype, is_our_encoding, quality: (quality * THOUSAND).round() as u16 })
    }

    /// How exactly it names this format; `None`: not at all.
    fn exactness(&self, format: Format) -> Option<u8> {
        let (kind, subtype) = format.media_type();
        let (is_kind, is_subtype) =
            (self.kind.eq_ignore_ascii_case(kind), self.subtype.eq_ignore_ascii_case(subtype));
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (_, "*") if is_kind => Some(1),
            _ if is_kind && is_subtype => {
                (format != Format::Protobuf || self.is_our_encoding).then_some(2)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Format::{OpenMetrics, Prometheus, Protobuf};
    use super::*;

    const OURS: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    #[test]
    fn each_reader_gets_what_it_asks_for() {
        // As Prometheus asks: 2.x, 2.x with native histograms, 3.x.
        let texts = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let native = format!("{OURS},{texts}");
        let third = format!(
            "{OURS};escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.3,*/*;q=0.1"
        );
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, format) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            (browser, Prometheus),
            (texts, OpenMetrics),
            (&native, Protobuf),
            (&third, Protobuf),
            ("application/json", Prometheus),
            ("application/*", OpenMetrics),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn quality_comes_before_exactness_and_that_before_order() {
        let protobuf = |q: &str| format!("{OURS};q={q}");
        for (accept, format) in [
            ("text/plain;q=0.4, application/openmetrics-text;q=0.5".to_owned(), OpenMetrics),
            ("text/plain, application/openmetrics-text".to_owned(), Prometheus),
            ("application/openmetrics-text, text/plain".to_owned(), OpenMetrics),
            (format!("{},text/plain;q=0.3", protobuf("0.2")), Prometheus),
            (format!("*/*, {}", protobuf("1.0")), Protobuf),
            (format!("application/*;q=0.9, {}", protobuf("0.1")), OpenMetrics),
            (format!("text/plain;q=0, {}", protobuf("0.001")), Protobuf),
            ("*/*, text/plain;q=0".to_owned(), OpenMetrics),
            ("*/*;q=0".to_owned(), Prometheus),
            // No quality of any kind, and no media type.
            ("application/openmetrics-text;q=2, text/plain;q=0.1".to_owned(), Prometheus),
            ("application/openmetrics-text;q=NaN, *".to_owned(), Prometheus),
            (" Application/OpenMetrics-Text ; Q=0.5 ".to_owned(), OpenMetrics),
        ] {
            assert_eq!(Format::accepted(&accept), format, "{accept}");
        }
    }

    #[test]
    fn protobuf_of_another_form_is_another_format() {
        for parameters in ["", ";encoding=delimited", ";proto=io.prometheus.client.MetricFamily"] {
            let accept = format!("application/vnd.google.protobuf{parameters},text/plain;q=0.1");
            assert_eq!(Format::accepted(&accept), Prometheus, "{accept}");
        }
        let text = OURS.replace("delimited", "text");
        assert_eq!(Format::accepted(&format!("{text},text/plain;q=0.1")), Prometheus);
        let quoted = OURS.replace("delimited", "\"delimited\"");
        assert_eq!(Format::accepted(&format!("{quoted},text/plain;q=0.1")), Protobuf);
    }
}
