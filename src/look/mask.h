#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Untrusted text, such as lines of a log, with `***` in place of what may be a secret: the user and password of a URL,
/// the value of a name such as `api_key`, `--password` or `"token"`, what follows `Bearer`, a private key's lines, and
/// tokens of known form (Hugging Face, OpenAI, GitHub, GitLab, AWS, Google, Slack, JWT). Masks rather too much.
std::string masked(std::string_view text);

/// A command line's words, joined by spaces; the word after an option such as `--token` is masked as a whole.
std::string masked_command(const std::vector<std::string_view>& words);

/// Whether a name (of a variable, an option, a member) is one of a secret: "WANDB_API_KEY", "hf-token".
bool names_secret(std::string_view name);

}  // namespace busbar
