#pragma once

#include <string>

/// A document's text without the second in its envelope: of two that are compared each may have been written in
/// another.
inline std::string untimed(std::string document) {
  const std::string key = "\"time\":\"";
  const std::size_t at = document.find(key);
  return at == std::string::npos ? document
                                 : document.erase(at + key.size(), std::string("YYYY-MM-DD HH:MM:SS").size());
}
