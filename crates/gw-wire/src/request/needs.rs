//! The capabilities that a request needs of a model.

/// The capabilities that a request needs of a model. They are checked against the features and modalities of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent capabilities, not a state")]
pub struct Needs {
    /// Tools or functions are offered.
    pub tools: bool,
    /// The number of offered tools or functions.
    pub tool_count: usize,
    /// Custom tools are offered, or were called.
    pub custom_tools: bool,
    /// The messages hold an image.
    pub image: bool,
    /// The messages hold audio.
    pub audio_input: bool,
    /// `modalities` asks for audio.
    pub audio_output: bool,
    /// `modalities` asks for images.
    pub image_output: bool,
    /// `response_format` is `json_object`.
    pub json_mode: bool,
    /// `response_format` is `json_schema`.
    pub json_schema: bool,
    /// The member with content that only OpenAI-type providers understand: one of the constants below.
    pub openai_only: Option<&'static str>,
}

impl Needs {
    /// Tools or a tool choice of a type that only OpenAI-type providers know. Other providers: `unsupported_value`.
    pub const OTHER_TOOLS: &'static str = "tools";
    /// Content parts of an unknown type. Other providers: `invalid_value`.
    pub const OTHER_PARTS: &'static str = "messages";
}
