//! Reads Prometheus' protobuf format: knows nothing of what wrote it, only the wire and the numbers of fields in `io/prometheus/client/metrics.proto`.
//!
//! Invariant: what it does not know is a panic, so that nothing on a page is passed over.

/// A family of metrics.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    /// `MetricType`: 0 counter, 1 gauge, 4 histogram.
    pub(super) kind: u64,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) labels: Vec<(String, String)>,
    pub(super) gauge: Option<f64>,
    pub(super) counter: Option<f64>,
    pub(super) histogram: Option<Histogram>,
}

#[derive(Debug, Default)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    /// Upper bound and cumulative count.
    pub(super) classic: Vec<(f64, u64)>,
    pub(super) schema: Option<i64>,
    pub(super) zero_threshold: f64,
    pub(super) zero_count: u64,
    pub(super) spans: Vec<(i64, u64)>,
    pub(super) deltas: Vec<i64>,
}

impl Histogram {
    /// Number and count of each native bucket.
    pub(super) fn native(&self) -> Vec<(i64, i64)> {
        let (mut all, mut number, mut count, mut deltas) = (Vec::new(), 0, 0, self.deltas.iter());
        for (offset, length) in &self.spans {
            number += offset;
            for _ in 0..*length {
                count += deltas.next().expect("a delta for each bucket");
                all.push((number, count));
                number += 1;
            }
        }
        assert!(deltas.next().is_none(), "more deltas than buckets");
        all
    }
}

/// A field's value.
enum Value<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn varint(&self) -> u64 {
        let Value::Varint(number) = self else { panic!("no varint") };
        *number
    }

    fn double(&self) -> f64 {
        let Value::Double(number) = self else { panic!("no double") };
        *number
    }

    fn bytes(&self) -> &'a [u8] {
        let Value::Bytes(bytes) = self else { panic!("no bytes") };
        bytes
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("UTF-8")
    }

    fn signed(&self) -> i64 {
        zigzag(self.varint())
    }
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("the end of a varint");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a varint of more than 64 bits");
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}

/// The fields of a message, in their order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            1 => Value::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight"))),
            2 => {
                let len = varint(&mut bytes) as usize;
                Value::Bytes(take(&mut bytes, len))
            }
            kind => panic!("wire type {kind}"),
        };
        all.push((key >> 3, value));
    }
    all
}

/// All families of a page.
pub(super) fn families(mut page: &[u8]) -> Vec<Family> {
    let mut all = Vec::new();
    while !page.is_empty() {
        let len = varint(&mut page) as usize;
        all.push(family(take(&mut page, len)));
    }
    all
}

fn family(bytes: &[u8]) -> Family {
    let mut family = Family::default();
    for (number, value) in fields(bytes) {
        match number {
            1 => family.name = value.text(),
            2 => family.help = value.text(),
            3 => family.kind = value.varint(),
            4 => family.samples.push(sample(value.bytes())),
            _ => panic!("field {number} of a family"),
        }
    }
    family
}

fn sample(bytes: &[u8]) -> Sample {
    let mut sample = Sample::default();
    for (number, value) in fields(bytes) {
        match number {
            1 => {
                let [(1, name), (2, value)] = &fields(value.bytes())[..] else { panic!("a label") };
                sample.labels.push((name.text(), value.text()));
            }
            2 => sample.gauge = Some(one_double(value.bytes())),
            3 => sample.counter = Some(one_double(value.bytes())),
            7 => sample.histogram = Some(histogram(value.bytes())),
            _ => panic!("field {number} of a metric"),
        }
    }
    sample
}

fn one_double(bytes: &[u8]) -> f64 {
    let [(1, value)] = &fields(bytes)[..] else { panic!("one value") };
    value.double()
}

fn histogram(bytes: &[u8]) -> Histogram {
    let mut histogram = Histogram::default();
    for (number, value) in fields(bytes) {
        match number {
            1 => histogram.count = value.varint(),
            2 => histogram.sum = value.double(),
            3 => {
                let [(1, count), (2, end)] = &fields(value.bytes())[..] else { panic!("a bucket") };
                histogram.classic.push((end.double(), count.varint()));
            }
            5 => histogram.schema = Some(value.signed()),
            6 => histogram.zero_threshold = value.double(),
            7 => histogram.zero_count = value.varint(),
            12 => {
                let [(1, offset), (2, length)] = &fields(value.bytes())[..] else {
                    panic!("a span")
                };
                histogram.spans.push((offset.signed(), length.varint()));
            }
            13 => {
                let mut packed = value.bytes();
                while !packed.is_empty() {
                    histogram.deltas.push(zigzag(varint(&mut packed)));
                }
            }
            _ => panic!("field {number} of a histogram"),
        }
    }
    histogram
}
