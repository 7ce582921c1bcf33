// toml.cpp: the shim around toml++, the only C++ file of the runtime. Copies its tree into nodes of a pool.
//
// Invariant: nothing is thrown out of this file, and no recursion is deeper than the bounds that toml_scan.c and
// TOML_MAX_NESTED_VALUES set.
#define TOML_EXCEPTIONS                 0
#define TOML_HEADER_ONLY                1
#define TOML_MAX_NESTED_VALUES          48
#define TOML_ENABLE_FORMATTERS          0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <toml++/toml.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include "runtime/topology/toml.h"
#include "runtime/topology/toml_scan.h"

namespace {

struct copier {
    verl_pool_t *pool;
    bool failed;     // memory ran out
    const char *why; // it stopped for another reason
};

verl_node_t *copy(copier &self, const toml::node &from, int depth);

verl_at_t
place(const toml::source_region &region)
{
    return { -1, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column) };
}

void *
take(copier &self, size_t count, size_t bytes)
{
    void *memory = verl_pool_try(self.pool, count * bytes);
    self.failed = self.failed || !memory;
    return memory;
}

char *
copy_text(copier &self, std::string_view text)
{
    if (text.find('\0') != std::string_view::npos) {
        self.why = "a string with a zero byte in it: nothing here can hold one";
        self.failed = true;
        return nullptr;
    }
    char *to = static_cast<char *>(take(self, text.size() + 1, 1));
    if (to && !text.empty())
        std::memcpy(to, text.data(), text.size());
    return to;
}

void
reserve(copier &self, verl_node_t *to, size_t count, bool table)
{
    to->items = static_cast<verl_node_t **>(take(self, count, sizeof *to->items));
    if (table)
        to->keys = static_cast<char **>(take(self, count, sizeof *to->keys));
}

// The parser keeps tables sorted by key; people think of them in the order of the file.
void
copy_table(copier &self, const toml::table &from, verl_node_t *to, int depth)
{
    using entry = std::pair<const toml::key *, const toml::node *>;
    std::vector<entry> entries;
    for (auto &&[key, value] : from)
        entries.emplace_back(&key, &value);
    std::stable_sort(entries.begin(), entries.end(), [](const entry &a, const entry &b) {
        const auto &p = a.first->source().begin, &q = b.first->source().begin;
        return p.line != q.line ? p.line < q.line : p.column < q.column;
    });
    to->whole = from.is_inline();
    reserve(self, to, entries.size(), true);
    for (const entry &e : entries) {
        verl_node_t *item = self.failed ? nullptr : copy(self, *e.second, depth + 1);
        char *key = item ? copy_text(self, e.first->str()) : nullptr;
        if (!key)
            return;
        item->key_at = place(e.first->source());
        to->keys[to->count] = key;
        to->items[to->count++] = item;
    }
}

void
copy_array(copier &self, const toml::array &from, verl_node_t *to, int depth)
{
    reserve(self, to, from.size(), false);
    for (const toml::node &value : from) {
        verl_node_t *item = self.failed ? nullptr : copy(self, value, depth + 1);
        if (!item)
            return;
        item->key_at = item->at;
        to->items[to->count++] = item;
    }
}

void
copy_value(copier &self, const toml::node &from, verl_node_t *to, int depth)
{
    switch (from.type()) {
    case toml::node_type::boolean:
        to->type = VERL_NODE_BOOL;
        to->boolean = **from.as_boolean();
        break;
    case toml::node_type::integer:
        to->type = VERL_NODE_INT;
        to->integer = **from.as_integer();
        break;
    case toml::node_type::floating_point:
        to->type = VERL_NODE_REAL;
        to->real = **from.as_floating_point();
        break;
    case toml::node_type::string:
        to->type = VERL_NODE_STRING;
        to->string = copy_text(self, **from.as_string());
        break;
    case toml::node_type::array:
        to->type = VERL_NODE_ARRAY;
        copy_array(self, *from.as_array(), to, depth);
        break;
    case toml::node_type::table:
        to->type = VERL_NODE_TABLE;
        copy_table(self, *from.as_table(), to, depth);
        break;
    default:
        to->type = VERL_NODE_DATE;
        break;
    }
}

verl_node_t *
copy(copier &self, const toml::node &from, int depth)
{
    if (depth > VERL_NODE_DEPTH) {
        self.why = "tables too deep inside each other";
        self.failed = true;
        return nullptr;
    }
    auto *to = static_cast<verl_node_t *>(take(self, 1, sizeof(verl_node_t)));
    if (!to)
        return nullptr;
    to->at = to->key_at = place(from.source());
    copy_value(self, from, to, depth);
    return self.failed ? nullptr : to;
}

verl_node_t *
refuse(verl_toml_error_t *error, std::string_view why, int line, int column)
{
    error->line = line;
    error->column = column;
    std::snprintf(error->text, sizeof error->text, "%.*s", static_cast<int>(why.size()), why.data());
    return nullptr;
}

verl_node_t *
parse(const char *text, size_t size, verl_pool_t *pool, verl_toml_error_t *error)
{
    toml::parse_result result = toml::parse(std::string_view(text, size));
    if (!result) {
        const auto &at = result.error().source().begin;
        return refuse(error, result.error().description(), static_cast<int>(at.line), static_cast<int>(at.column));
    }
    copier self = { pool, false, nullptr };
    verl_node_t *root = copy(self, result.table(), 0);
    if (root)
        return root;
    return refuse(error, self.why ? self.why : "no memory for the document", 0, 0);
}

} // namespace

extern "C" verl_node_t *
verl_toml_parse(const char *text, size_t size, verl_pool_t *pool, verl_toml_error_t *error)
{
    *error = {};
    if (size > VERL_TOML_MAX_BYTES)
        return refuse(error, "the document is larger than 4 MiB: a topology is a few kilobytes", 0, 0);
    if (verl_toml_scan(text, size, error) != 0)
        return nullptr;
    try {
        return parse(text, size, pool, error);
    } catch (...) {
        return refuse(error, "no memory for the document", 0, 0);
    }
}
