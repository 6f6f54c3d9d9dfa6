//! The forms with files that clients upload.

use std::sync::{Arc, OnceLock};

use gw_providers::multipart::FileSource;
use gw_wire::operation::PlainOperation;

use crate::error::{Error, Kind};

/// A form as a client sent it. Its fields are in the body of the request.
#[derive(Debug, Default)]
pub struct UploadedForm {
    /// The files, in their order.
    pub files: Vec<UploadedFile>,
}

/// A file of a form.
#[derive(Debug)]
pub struct UploadedFile {
    /// The field of the form, without the brackets of a list.
    pub field: String,
    /// The name of the file.
    pub name: String,
    /// Its media type as the client wrote it.
    pub media_type: Option<String>,
    /// Its content.
    pub content: Arc<dyn FileSource>,
    /// Its length; while it comes, the most that it can have.
    pub bytes: u64,
    /// The duration of a recording in millionths of a second, as far as the file tells it when it is complete.
    pub micros: Arc<OnceLock<u64>>,
}

/// The error of a form without the file that it needs, or with others.
pub(crate) fn wrong_files(wanted: &'static str, names: &[String]) -> Error {
    let mut error = match names {
        [] => Error::new(Kind::Invalid, format!("Missing required parameter: '{wanted}'.")),
        _ => {
            let message = format!("The form must have one file, in the field '{wanted}', and no other.");
            Error::new(Kind::Invalid, message)
        }
    };
    let code = if names.is_empty() { "missing_required_parameter" } else { "invalid_value" };
    error.code = Some(code.into());
    error
}

/// The requests that are forms with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormKind {
    /// `POST /v1/audio/transcriptions`.
    Transcription,
    /// `POST /v1/audio/translations`.
    Translation,
    /// `POST /v1/images/edits`.
    ImageEdit,
    /// `POST /v1/images/variations`.
    ImageVariation,
}

impl FormKind {
    /// The form of an operation whose requests are forms; None: they are JSON.
    #[must_use]
    pub const fn of(operation: PlainOperation) -> Option<Self> {
        match operation {
            PlainOperation::Transcription => Some(Self::Transcription),
            PlainOperation::Translation => Some(Self::Translation),
            _ => None,
        }
    }

    /// Its operation.
    #[must_use]
    pub const fn operation(self) -> PlainOperation {
        match self {
            Self::Transcription => PlainOperation::Transcription,
            Self::Translation => PlainOperation::Translation,
            Self::ImageEdit | Self::ImageVariation => PlainOperation::Images,
        }
    }
}
