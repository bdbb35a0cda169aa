#pragma once
#include "common/accept/accept_result.h"
namespace busbar {
std::string accept_text(const AcceptResult& result);
}
