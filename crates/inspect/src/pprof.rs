//! The format of pprof: profiles as protobuf messages (github.com/google/pprof,
//! `proto/profile.proto`).

use crate::numbers::Numbers;
use crate::protobuf::Message;
use crate::symbols::Frame;

/// Numbers of fields, as the definition has them.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const TEXT: u32 = 6;
    pub(super) const TIME: u32 = 9;
    pub(super) const DURATION: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const DEFAULT_TYPE: u32 = 14;

    pub(super) const TYPE_NAME: u32 = 1;
    pub(super) const TYPE_UNIT: u32 = 2;

    pub(super) const SAMPLE_LOCATIONS: u32 = 1;
    pub(super) const SAMPLE_VALUES: u32 = 2;
    pub(super) const SAMPLE_LABEL: u32 = 3;
    pub(super) const LABEL_KEY: u32 = 1;
    pub(super) const LABEL_TEXT: u32 = 2;

    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const LOCATION_LINE: u32 = 4;
    pub(super) const LINE_FUNCTION: u32 = 1;
    pub(super) const LINE: u32 = 2;

    pub(super) const FUNCTION_ID: u32 = 1;
    pub(super) const FUNCTION_NAME: u32 = 2;
    pub(super) const FUNCTION_FILE: u32 = 4;
}

/// A profile under construction.
pub(crate) struct ProfileWriter {
    profile: Message,
    texts: Numbers<String>,
    functions: Numbers<(u64, u64)>,
    locations: Numbers<(u64, u64)>,
}

/// A kind of value: its name, and its unit.
pub(crate) type ValueType = (&'static str, &'static str);

impl ProfileWriter {
    /// Begins a profile with these values; the one at `shown` is shown if the reader does not ask
    /// for another.
    pub(crate) fn new(values: &[ValueType], shown: usize) -> Self {
        let mut writer = ProfileWriter {
            profile: Message::default(),
            texts: Numbers::new(0),
            functions: Numbers::new(1),
            locations: Numbers::new(1),
        };
        // The first text is the empty one.
        writer.text("");
        for value in values {
            writer.value_type(field::SAMPLE_TYPE, *value);
        }
        let default = writer.text(values[shown].0);
        writer.profile.number(field::DEFAULT_TYPE, default);
        writer
    }

    /// Sets the time of the profile, and that between two samples.
    pub(crate) fn set_times(&mut self, begin_ns: u64, duration_ns: u64, period_ns: u64) {
        self.profile.number(field::TIME, begin_ns);
        self.profile.number(field::DURATION, duration_ns);
        self.value_type(field::PERIOD_TYPE, ("wall", "nanoseconds"));
        self.profile.number(field::PERIOD, period_ns);
    }

    /// Adds a sample: its stack, the innermost frame first, its values and labels.
    pub(crate) fn sample(&mut self, stack: &[Frame], values: &[u64], labels: &[(&str, &str)]) {
        let locations: Vec<_> = stack.iter().map(|frame| self.location(frame)).collect();
        let label = |(key, text): &(&str, &str)| (self.text(key), self.text(text));
        let labels: Vec<_> = labels.iter().map(label).collect();
        self.profile.message(field::SAMPLE, |sample| {
            sample.numbers(field::SAMPLE_LOCATIONS, locations);
            sample.numbers(field::SAMPLE_VALUES, values.iter().copied());
            for (key, text) in labels {
                sample.message(field::SAMPLE_LABEL, |label| {
                    label.number(field::LABEL_KEY, key);
                    label.number(field::LABEL_TEXT, text);
                });
            }
        });
    }

    /// Returns the encoded profile.
    pub(crate) fn finish(&self) -> &[u8] {
        self.profile.encoded()
    }

    fn value_type(&mut self, field: u32, (name, unit): ValueType) {
        let (name, unit) = (self.text(name), self.text(unit));
        self.profile.message(field, |kind| {
            kind.number(field::TYPE_NAME, name);
            kind.number(field::TYPE_UNIT, unit);
        });
    }

    fn text(&mut self, text: &str) -> u64 {
        let (number, is_new) = self.texts.of(text);
        if is_new {
            self.profile.bytes(field::TEXT, text.as_bytes());
        }
        number
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        let (file, line) =
            frame.line.as_ref().map_or(("", 0), |(file, line)| (file.as_str(), *line));
        let key = (self.text(&frame.function), self.text(file));
        let (function, is_new) = self.functions.of(&key);
        if is_new {
            self.profile.message(field::FUNCTION, |message| {
                message.number(field::FUNCTION_ID, function);
                message.number(field::FUNCTION_NAME, key.0);
                message.number(field::FUNCTION_FILE, key.1);
            });
        }
        let (location, is_new) = self.locations.of(&(function, u64::from(line)));
        if is_new {
            self.profile.message(field::LOCATION, |message| {
                message.number(field::LOCATION_ID, location);
                message.message(field::LOCATION_LINE, |at| {
                    at.number(field::LINE_FUNCTION, function);
                    at.number(field::LINE, u64::from(line));
                });
            });
        }
        location
    }
}
