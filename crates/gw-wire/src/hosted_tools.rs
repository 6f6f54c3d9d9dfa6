//! Tools that a provider runs itself and charges by the call, beside the tokens.

/// A hosted tool whose calls have a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostedTool {
    /// A search of the web, by the query or the call, as the provider counts.
    WebSearch,
    /// The reading of a web page.
    WebFetch,
    /// A search in stored files.
    FileSearch,
    /// A container in which the model runs code.
    CodeInterpreter,
}

impl HostedTool {
    /// All hosted tools, in the order of their prices.
    pub const ALL: [Self; 4] = [Self::WebSearch, Self::WebFetch, Self::FileSearch, Self::CodeInterpreter];

    /// The name of the tool's price in `pricing.tools`.
    #[must_use]
    pub const fn price_name(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search_per_call",
            Self::WebFetch => "web_fetch_per_call",
            Self::FileSearch => "file_search_per_call",
            Self::CodeInterpreter => "code_interpreter_per_container",
        }
    }
}

/// Calls of hosted tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostedCalls {
    /// Searches of the web.
    pub web_search: u32,
    /// Web pages that were read.
    pub web_fetch: u32,
    /// Searches in stored files.
    pub file_search: u32,
    /// Containers in which code ran.
    pub code_interpreter: u32,
}

impl HostedCalls {
    /// Whether no hosted tool was called.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The calls of one tool.
    #[must_use]
    pub fn of(&self, tool: HostedTool) -> u32 {
        match tool {
            HostedTool::WebSearch => self.web_search,
            HostedTool::WebFetch => self.web_fetch,
            HostedTool::FileSearch => self.file_search,
            HostedTool::CodeInterpreter => self.code_interpreter,
        }
    }

    /// Adds calls of one tool.
    pub fn add(&mut self, tool: HostedTool, calls: u32) {
        let place = match tool {
            HostedTool::WebSearch => &mut self.web_search,
            HostedTool::WebFetch => &mut self.web_fetch,
            HostedTool::FileSearch => &mut self.file_search,
            HostedTool::CodeInterpreter => &mut self.code_interpreter,
        };
        *place = place.saturating_add(calls);
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        HostedTool::ALL.into_iter().for_each(|tool| self.add(tool, other.of(tool)));
        self
    }
}
