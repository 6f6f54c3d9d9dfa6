//! `[responses]`.

use gw_engine::stored_responses::{ResponsePlace, StoredResponseSettings};

use super::super::binding::{Change, Form, field, words};
use super::super::schema::{Kind, Section, setting, words_of};

pub(super) static RESPONSES: Section = Section {
    doc: "Stored responses of `POST /v1/responses`. A client retrieves a stored response, continues it with \
          `previous_response_id`, or has it made in the background. Only the key that made a response can use it.",
    keys: &[
        words_of(
            "store",
            words!(
                StoredResponseSettings,
                place,
                "memory" => ResponsePlace::default(),
                "database" => ResponsePlace::Database,
                "off" => ResponsePlace::Off
            ),
            "`memory` keeps responses in this process and never on a disk, `database` keeps them encrypted in the store of \
             `[store]`, `off` keeps none.",
        ),
        // Stands behind `store`, whose place it sizes.
        setting(
            "max_mib",
            Kind::Int { min: 1, max: 1_048_576 },
            &Change {
                form: Form::MIB,
                apply: |settings: &mut StoredResponseSettings, bytes| {
                    if let ResponsePlace::Memory { max_bytes } = &mut settings.place {
                        *max_bytes = bytes;
                    }
                },
                default: |settings| match settings.place {
                    ResponsePlace::Memory { max_bytes } => Some(max_bytes),
                    ResponsePlace::Database | ResponsePlace::Off => None,
                },
            },
            "The size of all responses in memory, in MiB. If they are more, the key that holds the most loses its oldest \
             conversation first. A response that is larger is refused, or answered with `store: false`.",
        ),
        setting(
            "max_mib_per_key",
            Kind::Int { min: 1, max: 1_048_576 },
            field!(StoredResponseSettings, max_bytes_per_key, Form::MIB),
            "The size of one key's responses, in MiB. In memory, its oldest ones leave first. In the database, a request \
             whose response has no room is refused before its upstream is called, unless it says `store: false`; an ended \
             response counts until it is purged, at most five minutes later.",
        ),
        setting(
            "ttl_seconds",
            Kind::Int { min: 1, max: 2_592_000 },
            field!(StoredResponseSettings, ttl, Form::SECONDS),
            "How long a response is kept, at most 30 days.",
        ),
    ],
};
