#include "driver/readers/input_file.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/machine/resources.h"
#include "common/record/json_values.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

namespace busbar {
namespace {

namespace fs = std::filesystem;

bool begins_as(std::string_view list, const InputFile& file) {
  return builtin_line_rules().has(list, read_piece(file.opens, kHead).text);
}

bool is_packed(const InputFile& file) { return begins_as("compressed", file) || begins_as("archives", file); }

/// Chooses the format by the beginning: libarchive alone would take any text for one, and zeros at the beginning
/// for an empty tar. A file is `raw` if it is compressed, whatever is in it, or to be read as it is.
std::shared_ptr<archive> opened(const fs::path& path, bool is_raw) {
  std::shared_ptr<archive> one(archive_read_new(), archive_read_free);
  for (const int filter :
       {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_LZ4}) {
    archive_read_support_filter_by_code(one.get(), filter);
  }
  const std::vector<int> raw{ARCHIVE_FORMAT_RAW, ARCHIVE_FORMAT_EMPTY},
      archives{ARCHIVE_FORMAT_ZIP, ARCHIVE_FORMAT_7ZIP, ARCHIVE_FORMAT_TAR};
  for (const int format : is_raw ? raw : archives) archive_read_support_format_by_code(one.get(), format);
  constexpr std::size_t kBlock = 256 << 10;
  archive_read_open_filename(one.get(), path.c_str(), kBlock);
  return one;
}

/// Why reading stopped.
std::string complaint(archive* one) {
  const char* const text = archive_error_string(one);
  return text == nullptr ? "it ends too early" : text;
}

struct Unpacker {
  std::uint64_t room;  ///< [bytes]
  std::vector<InputFile> files;

  void add(InputFile file, int depth) {
    constexpr int kDeepest = 8;  // archives in archives
    if (!is_packed(file)) return files.push_back(std::move(file));
    if (depth == kDeepest) return add_trouble(file, "an archive in too many others");
    add_members(file, begins_as("compressed", file), depth);
    if (!file.trouble.empty()) add_trouble(file, file.trouble);
  }

  void add_trouble(const InputFile& file, std::string trouble) {
    files.push_back({file.path, {}, std::move(trouble), {}});
  }

  void add_members(const InputFile& packed, bool alone, int depth) {
    const auto in = opened(packed.opens, alone);
    const std::size_t before = files.size();
    archive_entry* entry = nullptr;
    int state = ARCHIVE_OK;
    while ((state = archive_read_next_header(in.get(), &entry)) == ARCHIVE_OK || state == ARCHIVE_WARN) {
      if (!alone && (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr)) continue;
      const char* name = archive_entry_pathname_utf8(entry);
      if (name == nullptr) name = archive_entry_pathname(entry);
      const std::string path = packed.path.string();
      InputFile member = input_in_memory(alone || name == nullptr ? path : path + "/" + name, "");
      if (archive_entry_is_encrypted(entry) != 0) {
        add_trouble(member, "encrypted");
      } else if (unpack(in.get(), member)) {
        add(std::move(member), depth + 1);
      } else {  // skipping the rest of it would mean unpacking it
        return add_trouble(member, member.trouble + "; nothing after it is read");
      }
    }
    if (state != ARCHIVE_EOF) {  // without a format it would call a null function (3.6)
      const bool locked = archive_format(in.get()) != 0 && archive_read_has_encrypted_entries(in.get()) > 0;
      add_trouble(packed, locked ? "encrypted" : "damaged: " + complaint(in.get()));
    } else if (files.size() == before) {
      add_trouble(packed, alone ? "empty" : "an archive without files");
    }
  }

  /// Keeps what there is even if the end is missing: a process that died may have been writing it. False: it is too
  /// large.
  bool unpack(archive* in, InputFile& member) {
    // Times its packed size that a large member may have: deflate's maximum is 1032, for zeros.
    constexpr std::uint64_t kMostRatio = 2000, kFreeOfRatio = 64 << 20;
    constexpr std::uint64_t kPerMember = 4096;  // what an empty one costs
    const std::int64_t packed_before = archive_filter_bytes(in, -1);
    const void* block = nullptr;
    std::size_t length = 0;
    la_int64_t offset = 0;
    std::uint64_t size = 0;
    int state = ARCHIVE_OK;
    while (member.trouble.empty() && state == ARCHIVE_OK) {
      size = static_cast<std::uint64_t>(offset) + length;
      const auto packed = static_cast<std::uint64_t>(archive_filter_bytes(in, -1) - packed_before);
      if (size + kPerMember > room) {
        member.trouble = fmt::format("unpacked it needs more than the {} left for it", format_bytes(room));
      } else if (size > kFreeOfRatio && size / kMostRatio > packed) {
        member.trouble = "a bomb: it unpacks to far more than its size";
      } else if (::pwrite(::fileno(member.memory.get()), block, length, offset) != static_cast<ssize_t>(length)) {
        member.trouble = std::strerror(errno);
      } else {  // not archive_read_data(), which drops what it has if the end is missing
        state = archive_read_data_block(in, &block, &length, &offset);
      }
    }
    if (!member.trouble.empty()) return false;
    room -= size + kPerMember;
    if (state != ARCHIVE_EOF) member.trouble = "its rest: " + complaint(in);
    return true;
  }
};

/// Characters beyond 16 bits become halves that are not UTF-8.
std::string utf8_of(std::string_view utf16, bool high_first) {
  std::string utf8;
  for (std::size_t i = 0; i + 1 < utf16.size(); i += 2) {
    const unsigned first = static_cast<unsigned char>(utf16[i]), second = static_cast<unsigned char>(utf16[i + 1]);
    const unsigned unit = high_first ? first << 8U | second : second << 8U | first;
    if (unit >= 0x800) utf8 += static_cast<char>(0xE0U | unit >> 12U);
    if (unit >= 0x80) utf8 += static_cast<char>(unit >= 0x800 ? 0x80U | (unit >> 6U & 0x3FU) : 0xC0U | unit >> 6U);
    utf8 += static_cast<char>(unit >= 0x80 ? 0x80U | (unit & 0x3FU) : unit);
  }
  return utf8;
}

/// `is_text`: a string here, or in a list here, is lines.
void add_lines(const Json& value, bool is_text, std::string& lines) {
  constexpr std::array<std::string_view, 10> kTexts{"message",     "msg",     "log",  "line", "text",
                                                    "textPayload", "MESSAGE", "_raw", "body", "values"};  // Loki's
  if (value.is_string() && is_text) {
    lines.append(value.get_ref<const std::string&>()).append("\n");
  } else if (value.is_array()) {
    for (const Json& item : value) add_lines(item, is_text, lines);
  } else if (value.is_object()) {
    for (const std::string_view name : kTexts) {  // one per record: some have the same text twice
      const auto found = value.find(name);
      if (found != value.end() && found->is_string()) return add_lines(*found, true, lines);
    }
    for (const auto& [key, member] : value.items()) add_lines(member, contains(kTexts, key), lines);
  }
}

/// A text whose lines a terminal or page broke at its width, with whole lines; empty if none was broken. What follows a
/// full line belongs to it unless it begins like a line that follows a shorter one, or both are of a table.
std::string unwrapped(std::string_view text) {
  constexpr std::ptrdiff_t kNarrowest = 72, kLeast = 3;
  constexpr std::string_view kOfTables = "|+=-";
  const auto width_of = [](std::string_view line) {
    return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
  };
  const auto start_of = [](std::string_view line) {
    std::string start(line.substr(0, 4));
    std::ranges::replace_if(start, is_digit, '0');
    return start;
  };
  // Two parts of a word, or two words with a space between them.
  const auto is_text = [](std::string_view before, std::string_view after) {
    if (after.starts_with(' ')) {
      after.remove_prefix(1);
    } else if (before.ends_with(' ')) {
      before.remove_suffix(1);
    }
    return !before.empty() && !after.empty() && is_name(before.back()) && is_name(after.front());
  };
  const std::vector<std::string_view> lines = split_text(text, '\n');
  std::vector<std::ptrdiff_t> widths;
  for (const std::string_view line : lines) widths.push_back(width_of(line));
  const std::ptrdiff_t width = std::ranges::max(widths);
  std::set<std::string> starts{start_of(lines.front())};
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (widths[i - 1] < width) starts.insert(start_of(lines[i]));
  std::string whole(lines.front());
  std::ptrdiff_t joined = 0, in_text = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    bool goes_on = widths[i - 1] == width && width > 0 && widths[i] > 0 && !starts.contains(start_of(lines[i]));
    goes_on = goes_on && kOfTables.find(whole.back()) == kNotFound && kOfTables.find(lines[i].front()) == kNotFound;
    joined += goes_on ? 1 : 0;
    in_text += goes_on && is_text(whole, lines[i]) ? 1 : 0;
    whole.append(goes_on ? "" : "\n").append(lines[i]);
  }
  const bool wrapped = width >= kNarrowest && in_text >= kLeast && joined * 2 >= std::ranges::count(widths, width);
  return wrapped ? whole : "";
}

}  // namespace

std::string lines_in(std::string_view text, std::string& trouble) {
  std::string lines;
  try {
    add_lines(parse_json(text, "its rest"), true, lines);
  } catch (const Error& error) {
    const Json begun = parse_begun_json(text);
    if (begun.is_array()) add_lines(begun, true, lines);  // anything else is a text that only begins like JSON
    if (!lines.empty()) trouble = error.what();
  }
  return lines;
}

InputFile input_in_memory(const fs::path& path, std::string_view text) {
  const int fd = ::memfd_create("busbar", MFD_CLOEXEC);
  if (fd < 0) return {path, {}, std::strerror(errno), {}};
  InputFile file{path, fmt::format("/proc/self/fd/{}", fd), {}, {::fdopen(fd, "w"), ::fclose}};
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) file.trouble = std::strerror(errno);
  return file;
}

Piece read_piece(const fs::path& path, std::uint64_t most) {
  std::error_code unknown;
  Piece piece;
  if (path == "-" || !fs::is_regular_file(path, unknown)) return piece;
  std::ifstream file(path, std::ios::binary);
  piece.size = fs::file_size(path, unknown);
  if (unknown || !file) return {};
  piece.text.resize(static_cast<std::size_t>(std::min(piece.size, most)));
  file.read(piece.text.data(), static_cast<std::streamsize>(piece.text.size()));
  piece.text.resize(static_cast<std::size_t>(file.gcount()));
  if (piece.text.starts_with(kUtf8Mark)) piece.text.erase(0, kUtf8Mark.size());
  return piece;
}

NextBytes blocks_of(const InputFile& file, std::string& trouble) {
  const auto stop = [&](const std::string& why) {
    if (trouble.empty()) trouble = why;
    return [] { return std::string_view(); };
  };
  std::error_code unknown;
  if (::access(file.opens.c_str(), R_OK) != 0) return stop(std::strerror(errno));
  if (!fs::is_regular_file(file.opens, unknown)) return stop("no regular file");
  const std::shared_ptr<archive> in = opened(file.opens, true);
  archive_entry* entry = nullptr;
  const int first = archive_read_next_header(in.get(), &entry);
  if (first == ARCHIVE_EOF) return stop({});
  if (first != ARCHIVE_OK && first != ARCHIVE_WARN) return stop("damaged: " + complaint(in.get()));
  return [in, &trouble]() -> std::string_view {
    const void* block = nullptr;
    std::size_t length = 0;
    la_int64_t offset = 0;
    int state = ARCHIVE_OK;
    while (state == ARCHIVE_OK && length == 0) state = archive_read_data_block(in.get(), &block, &length, &offset);
    if (state < ARCHIVE_OK && trouble.empty()) trouble = "its rest: " + complaint(in.get());
    return {static_cast<const char*>(block), length};
  };
}

bool is_archive(const InputFile& file) {
  if (!begins_as("compressed", file)) return begins_as("archives", file);
  std::string trouble;
  return builtin_line_rules().has("archives", blocks_of(file, trouble)().substr(0, kHead));
}

std::vector<InputFile> unpacked(std::span<const fs::path> files, std::uint64_t most_bytes) {
  std::vector<InputFile> inputs;
  for (const fs::path& path : files) inputs.push_back({path, path, {}, {}});
  if (std::ranges::none_of(inputs, is_packed)) return inputs;  // which needs no /proc
  rlimit open_files{};
  if (::getrlimit(RLIMIT_NOFILE, &open_files) == 0) {  // each member is one
    open_files.rlim_cur = open_files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &open_files);
  }
  Unpacker unpacker{most_bytes != 0 ? most_bytes : free_host_memory().free_bytes / 2, {}};
  for (InputFile& file : inputs) unpacker.add(std::move(file), 0);
  return unpacker.files;
}

InputFile plain_text(const InputFile& file, bool is_log) {
  const LineRules& rules = builtin_line_rules();
  const Piece head = read_piece(file.opens, kHead);
  const bool high_first = rules.has("utf16-high-first", head.text);
  const bool wide = high_first || rules.has("utf16-low-first", head.text);
  const bool document = is_log && rules.has("json-documents", head.text) && !rules.has("json-lines", head.text);
  if (!wide && (!document || looks_like_torch_dump(head.text))) {
    const std::string whole = is_log && head.size > 0 && head.size == head.text.size() ? unwrapped(head.text) : "";
    return whole.empty() ? file : input_in_memory(file.path, whole);
  }
  if (head.size > kMostFileBytes) return {file.path, file.opens, "UTF-16 or JSON of too many bytes", file.memory};
  std::string text = read_piece(file.opens, kMostFileBytes).text, trouble = file.trouble;
  text = wide ? utf8_of(text, high_first) : lines_in(text, trouble);
  if (text.empty()) return file;
  InputFile plain = input_in_memory(file.path, text);
  if (plain.trouble.empty()) plain.trouble = std::move(trouble);
  return wide ? plain_text(plain, is_log) : plain;
}

}  // namespace busbar
