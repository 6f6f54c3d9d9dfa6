//! `[[reconcile]]`.

use super::super::binding::{Form, field};
use super::super::formats::{BASE_URL, CREDENTIAL, PROVIDER};
use super::super::schema::{Kind, Section, required_setting, setting_or};
use super::super::settings::ReconcileSettings;

pub(super) static RECONCILE: Section = Section {
    doc: "The access of `model-gateway reconcile` to a provider's reports of usage and costs. `docs/reconcile.md` describes the \
          comparison.",
    keys: &[
        required_setting(
            "provider",
            Kind::Text(&PROVIDER),
            field!(ReconcileSettings, provider, Form::TEXT),
            "The provider of the reports: OpenAI, Anthropic or OpenRouter. No two entries share one.",
        ),
        required_setting(
            "admin_key",
            Kind::Secret(&CREDENTIAL),
            field!(ReconcileSettings, admin_key, Form::SECRET),
            "The key that may read the reports: OpenAI's and Anthropic's admin keys, OpenRouter's provisioning key. No model call \
             uses it.",
        ),
        setting_or(
            "base_url",
            Kind::Text(&BASE_URL),
            field!(ReconcileSettings, base_url, Form::OPTIONAL_TEXT),
            "the provider's own",
            "The address of the reports.",
        ),
    ],
};
