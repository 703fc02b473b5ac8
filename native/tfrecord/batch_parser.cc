#include "tfrecord/batch_parser.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr size_t kUnwanted = std::numeric_limits<size_t>::max();

// The kind of the rows, which errors number.
enum class Rows : uint8_t { kOne, kExamples, kSteps };

// How errors name the record, and whether a feature without a list counts as missing.
struct Manner {
  Rows rows = Rows::kOne;
  std::string_view name = {};  // of the record, or empty
  const char* feature_word = "feature";
  bool kindless_is_missing = true;
};

std::string record_text(const Manner& manner, std::optional<size_t> row) {
  if (row && manner.rows == Rows::kExamples) return "example " + std::to_string(*row);
  return std::string(manner.name);
}

std::string with_separator(const std::string& text, const char* separator) {
  return text.empty() ? text : text + separator;
}

[[noreturn]] void fail(const Manner& manner, const FeatureSpec& spec, std::optional<size_t> row,
                       const std::string& what) {
  const char* separator = manner.rows == Rows::kExamples ? ", " : ": ";
  const bool is_step = row && manner.rows == Rows::kSteps;
  const std::string step = is_step ? ", step " + std::to_string(*row) : "";
  throw FormatError(with_separator(record_text(manner, row), separator) + manner.feature_word +
                    " \"" + spec.name + "\"" + step + ": " + what);
}

[[noreturn]] void fail_malformed(const Manner& manner, BytesValue record, std::optional<size_t> row,
                                 const WireFault& fault) {
  throw FormatError(with_separator(record_text(manner, row), ": ") + "is not an Example: " +
                    fault.reason + " at byte " + std::to_string(fault.offset_in(record)) + " of " +
                    std::to_string(record.size()));
}

std::string values_text(size_t count) {
  return std::to_string(count) + (count == 1 ? " value" : " values");
}

template <typename T> void copy_default(const FeatureSpec& spec, T* to) {
  if constexpr (std::is_same_v<T, BytesValue>) {
    for (const std::string& text : std::get<Values<std::string>>(spec.defaults)) {
      *to++ = std::as_bytes(std::span(text));
    }
  } else {
    std::ranges::copy(std::get<Values<T>>(spec.defaults), to);
  }
}

// Returns where the values of one row of a kFixed column are stored.
template <typename T> T* fixed_row(const FeatureSpec& spec, Column& column, size_t row) {
  if (column.memory != nullptr) return static_cast<T*>(column.memory) + row * spec.stride;
  auto& values = column.of<T>();
  values.resize(values.size() + spec.stride);
  return values.data() + values.size() - spec.stride;
}

template <typename T>
[[nodiscard]] bool put_missing(const FeatureSpec& spec, Column& column, size_t row) {
  if (spec.layout != Layout::kFixed) {
    column.ends.push_back(column.of<T>().size());
    return true;
  }
  if (spec.has_default) copy_default(spec, fixed_row<T>(spec, column, row));
  return spec.has_default;
}

// The result of a row: its number of values, and whether that number is allowed.
struct Taken {
  size_t count = 0;
  bool fits = true;
  WireFault fault;
};

template <typename T>
[[nodiscard]] Taken put_values(const FeatureSpec& spec, Column& column, size_t row,
                               const Feature::Lists& lists) {
  Taken taken;
  if (spec.layout == Layout::kFixed) {
    T* const to = fixed_row<T>(spec, column, row);
    taken.fault = lists.for_each<T>([&](T value) {
      if (taken.count < spec.stride) to[taken.count] = value;
      ++taken.count;
    });
    taken.fits = taken.count == spec.stride;
    return taken;
  }
  auto& values = column.of<T>();
  const size_t before = values.size();
  taken.fault = lists.for_each<T>([&](T value) { values.push_back(value); });
  column.ends.push_back(values.size());
  taken.count = values.size() - before;
  taken.fits = spec.layout == Layout::kVariable || taken.count % spec.stride == 0;
  return taken;
}

}  // namespace

// One call of the parser.
class BatchParser::Pass {
 public:
  Pass(const BatchParser& parser, const Manner& manner, std::span<Column> columns)
      : parser_(parser), manner_(manner), columns_(columns), found_(parser.specs_.size()) {}

  // Finds the value of each wanted feature in `record`, in the maps in field `map_field`. If a name
  // occurs twice, the last one counts.
  void find(BytesValue record, uint32_t map_field, std::optional<size_t> row) {
    std::ranges::fill(found_, std::nullopt);
    size_t position = 0;
    const WireFault fault = wire::for_each_message(record, map_field, [&](BytesValue map) {
      return wire::for_each_message(map, 1, [&](BytesValue message) {
        wire::Entry entry = wire::read_entry(message);
        if (!entry.fault) entry.fault = note(entry, position++);
        return entry.fault;
      });
    });
    if (fault) fail_malformed(manner_, record, row, fault);
  }

  // Stores the values of each feature that find() has found.
  void put_row(BytesValue record, size_t row) {
    for (size_t i = 0; i < found_.size(); ++i) {
      const auto& value = found_[i];
      const FeatureSpec& spec = parser_.specs_[i];
      if (value) {
        put(record, spec, columns_[i], row, Feature{*value});
      } else {
        put_missing(spec, columns_[i], row);
      }
    }
  }

  // Stores the steps of each feature list that find() has found.
  void put_lists(BytesValue record) {
    for (size_t i = 0; i < found_.size(); ++i) {
      const auto& value = found_[i];
      const FeatureSpec& spec = parser_.specs_[i];
      if (!value) {
        if (spec.layout == Layout::kFixed && !spec.has_default) fail_missing(spec, std::nullopt);
        continue;
      }
      size_t row = 0;
      const auto put_step = [&](Feature step) { put(record, spec, columns_[i], row++, step); };
      const WireFault fault = FeatureList{*value}.for_each_step(put_step);
      if (fault) fail_malformed(manner_, record, std::nullopt, fault);
    }
  }

 private:
  using Found = std::optional<BytesValue>;

  // The records of one writer mostly have the same features in the same order: so a feature is
  // first compared with the one at its position in the record before, which is faster than a hash.
  struct Guess {
    std::string_view name;
    size_t spec = kUnwanted;
  };
  // Features at later positions are always looked up.
  static constexpr size_t kGuessLimit = 1024;

  WireFault note(const wire::Entry& entry, size_t position) {
    if (position >= guesses_.size() || guesses_[position].name != entry.name) {
      const auto known = parser_.by_name_.find(entry.name);
      const size_t spec = known == parser_.by_name_.end() ? kUnwanted : known->second;
      if (spec == kUnwanted) {
        if (const WireFault fault = wire::check_name(entry.name)) return fault;
      }
      if (position >= kGuessLimit) {
        if (spec != kUnwanted) found_[spec] = entry.value;
        return {};
      }
      if (position >= guesses_.size()) guesses_.resize(position + 1);
      guesses_[position] = {entry.name, spec};
    }
    const size_t spec = guesses_[position].spec;
    if (spec != kUnwanted) found_[spec] = entry.value;
    return {};
  }

  void put(BytesValue record, const FeatureSpec& spec, Column& column, size_t row,
           Feature feature) {
    const Feature::Lists lists = feature.lists();
    if (lists.fault) fail_malformed(manner_, record, row, lists.fault);
    if (lists.kind != spec.kind) {
      const bool may_lack = manner_.kindless_is_missing || spec.layout != Layout::kFixed;
      if (lists.kind == FeatureKind::kNone && may_lack) return put_missing(spec, column, row);
      fail(manner_, spec, row,
           std::string("holds ") + to_text(lists.kind) + ", expected " + to_text(spec.kind));
    }
    const Taken taken =
        by_kind(spec.kind, [&]<typename T>(T) { return put_values<T>(spec, column, row, lists); });
    if (taken.fault) fail_malformed(manner_, record, row, taken.fault);
    if (taken.fits) return;
    const char* multiple = spec.layout == Layout::kFixed ? "" : "a multiple of ";
    fail(manner_, spec, row,
         values_text(taken.count) + ", expected " + multiple + std::to_string(spec.stride));
  }

  void put_missing(const FeatureSpec& spec, Column& column, size_t row) {
    const bool done =
        by_kind(spec.kind, [&]<typename T>(T) { return ffrfs::put_missing<T>(spec, column, row); });
    if (!done) fail_missing(spec, row);
  }

  [[noreturn]] void fail_missing(const FeatureSpec& spec, std::optional<size_t> row) const {
    fail(manner_, spec, row,
         std::string("is not there, and is required: ") + to_text(spec.kind) + " of " +
             values_text(spec.stride));
  }

  const BatchParser& parser_;
  const Manner manner_;
  const std::span<Column> columns_;
  std::vector<Found> found_;  // by spec
  std::vector<Guess> guesses_;
};

BatchParser::BatchParser(std::vector<FeatureSpec> specs) : specs_(std::move(specs)) {
  for (size_t i = 0; i < specs_.size(); ++i) by_name_.emplace(specs_[i].name, i);
}

void BatchParser::parse(std::span<const BytesValue> examples, std::span<Column> columns) const {
  Pass pass(*this, {.rows = Rows::kExamples}, columns);
  for (size_t row = 0; row < examples.size(); ++row) {
    pass.find(examples[row], 1, row);
    pass.put_row(examples[row], row);
  }
}

void BatchParser::parse_one(BytesValue example, std::string_view name,
                            std::span<Column> columns) const {
  Pass pass(*this, {.name = name}, columns);
  pass.find(example, 1, std::nullopt);
  pass.put_row(example, 0);
}

void BatchParser::parse_context(BytesValue sequence, std::string_view name,
                                std::span<Column> columns) const {
  const Manner manner{
      .name = name, .feature_word = "context feature", .kindless_is_missing = false};
  Pass pass(*this, manner, columns);
  pass.find(sequence, 1, std::nullopt);
  pass.put_row(sequence, 0);
}

void BatchParser::parse_lists(BytesValue sequence, std::string_view name,
                              std::span<Column> columns) const {
  const Manner manner{.rows = Rows::kSteps,
                      .name = name,
                      .feature_word = "feature list",
                      .kindless_is_missing = false};
  Pass pass(*this, manner, columns);
  pass.find(sequence, 2, std::nullopt);
  pass.put_lists(sequence);
}

}  // namespace ffrfs
