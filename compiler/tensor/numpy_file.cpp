#include "compiler/tensor/numpy_file.h"

#include <fmt/ranges.h>
#include <zip.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "isa/file.h"

/// The formats: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
/// for .npy; .npz is a zip archive with one NAME.npy per array.
namespace kodama::compiler {

using isa::UserError;

namespace {

struct NumpyType {
  char kind;
  size_t size;
  DataType type;
};

constexpr std::array<NumpyType, 14> kNumpyTypes = {{{'b', 1, DataType::kBool},
                                                    {'i', 1, DataType::kInt8},
                                                    {'i', 2, DataType::kInt16},
                                                    {'i', 4, DataType::kInt32},
                                                    {'i', 8, DataType::kInt64},
                                                    {'u', 1, DataType::kUint8},
                                                    {'u', 2, DataType::kUint16},
                                                    {'u', 4, DataType::kUint32},
                                                    {'u', 8, DataType::kUint64},
                                                    {'f', 2, DataType::kFloat16},
                                                    {'f', 4, DataType::kFloat32},
                                                    {'f', 8, DataType::kFloat64},
                                                    {'c', 8, DataType::kComplex64},
                                                    {'c', 16, DataType::kComplex128}}};

/// The header of a .npy file: a Python dictionary of fixed keys, e.g.
///   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
struct NpyHeader {
  DataType type = DataType::kFloat32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_type) {
        parse_type(header);
        has_type = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail(fmt::format("key '{}' is unknown or there twice (allowed: descr, fortran_order, shape)", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_type || !has_order || !has_shape) fail("one of the keys descr, fortran_order, shape is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: broken .npy header: {}", where_, what));
  }

  void skip_space() {
    while (position_ < text_.size() &&
           std::string_view(" \n\t\r").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }
  bool accept(char wanted) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}' is missing at byte {}", wanted, position_));
  }
  std::string quoted() {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail(fmt::format("a quoted word is missing at byte {}", position_));
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a quote isn't closed");
    std::string word(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return word;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return value;
      }
    }
    fail("fortran_order is neither True nor False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + position_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) fail("an extent in shape is not a number from 0 to 2^63-1");
      position_ = static_cast<size_t>(end - text_.data());
      accept('L');  // Python 2 wrote long integers so
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  void parse_type(NpyHeader& header) {
    skip_space();
    if (position_ < text_.size() && text_[position_] == '[') {
      fail("the elements are records; allowed are bool, integers, float16/32/64 and complex64/128");
    }
    const std::string descr = quoted();
    if (descr.size() >= 3 && std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
      for (const NumpyType& row : kNumpyTypes) {
        if (descr.substr(1) == fmt::format("{}{}", row.kind, row.size)) {
          header.type = row.type;
          header.big_endian = descr[0] == '>';
          return;
        }
      }
    }
    fail(
        fmt::format("element type '{}'; allowed are bool, integers, float16/32/64 and complex64/128", descr));
  }

  std::string_view text_;
  std::string where_;
  size_t position_ = 0;
};

/// Fortran order means that the first index is the fastest: the file holds the transposed tensor.
Tensor from_fortran_order(const Tensor& stored) {
  Tensor result(stored.type(), stored.shape());
  const size_t width = element_size(stored.type());
  const int64_t count = stored.size();
  const int64_t rank = stored.rank();
  std::vector<int64_t> index(static_cast<size_t>(rank), 0);
  for (int64_t target = 0; target < count; ++target) {
    int64_t source = 0;
    for (int64_t axis = rank; axis-- > 0;) {
      source = source * stored.shape()[static_cast<size_t>(axis)] + index[static_cast<size_t>(axis)];
    }
    std::memcpy(result.bytes().data() + static_cast<size_t>(target) * width,
                stored.bytes().data() + static_cast<size_t>(source) * width, width);
    for (auto axis = static_cast<size_t>(rank); axis-- > 0;) {
      if (++index[axis] < stored.shape()[axis]) break;
      index[axis] = 0;
    }
  }
  return result;
}

void swap_bytes(Tensor& tensor) {
  const bool complex = tensor.type() == DataType::kComplex64 || tensor.type() == DataType::kComplex128;
  const size_t width = element_size(tensor.type()) / (complex ? 2 : 1);
  const auto bytes = tensor.bytes();
  for (size_t begin = 0; begin < bytes.size(); begin += width) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(begin),
                 bytes.begin() + static_cast<ptrdiff_t>(begin + width));
  }
}

struct NpyFile {
  NpyHeader header;
  size_t data_begin = 0;
  uint64_t elements = 0;
};
NpyFile parse_npy_header(std::string_view file, const std::string& where) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  if (file.size() < 10 || file.substr(0, kMagic.size()) != kMagic) {
    throw UserError(fmt::format("{}: not a .npy file (it doesn't begin with \\x93NUMPY)", where));
  }
  const size_t major = byte_at(6);
  if (major < 1 || major > 3) {
    throw UserError(fmt::format("{}: .npy format version {}; allowed are 1, 2 and 3", where, major));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t header_begin = 8 + length_bytes;
  if (file.size() < header_begin) throw UserError(fmt::format("{}: the .npy file is truncated", where));
  size_t header_size = 0;
  for (size_t i = 0; i < length_bytes; ++i) header_size |= byte_at(8 + i) << (8 * i);
  if (file.size() - header_begin < header_size) {
    throw UserError(fmt::format("{}: the .npy file is truncated inside its header", where));
  }
  NpyFile found{NpyHeaderParser(file.substr(header_begin, header_size), where).parse(),
                header_begin + header_size, 0};
  try {
    found.elements = static_cast<uint64_t>(element_count(found.header.shape));
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()));
  }
  return found;
}

/// Of the whole file, by what its beginning says, which must hold the header.
uint64_t npy_bytes(std::string_view beginning, const std::string& where) {
  const NpyFile found = parse_npy_header(beginning, where);
  const uint64_t width = element_size(found.header.type);
  const uint64_t most = std::numeric_limits<uint64_t>::max() - found.data_begin;
  return found.data_begin + (found.elements > most / width ? most : found.elements * width);
}

Tensor parse_npy(std::string_view file, const std::string& where) {
  const auto [header, data_begin, count] = parse_npy_header(file, where);
  const std::string_view data = file.substr(data_begin);
  const size_t width = element_size(header.type);
  if (count > data.size() / width || count * width != data.size()) {
    throw UserError(fmt::format(
        "{}: {} of shape {} needs {} elements of {} bytes, but {} bytes of data follow the header", where,
        data_type_name(header.type), shape_to_string(header.shape), count, width, data.size()));
  }
  Tensor tensor(header.type, header.shape);
  if (!data.empty()) std::memcpy(tensor.bytes().data(), data.data(), data.size());
  if (header.big_endian) swap_bytes(tensor);
  if (header.type == DataType::kBool) {
    for (uint8_t& value : tensor.data<uint8_t>()) value = value != 0 ? 1 : 0;
  }
  return header.fortran_order ? from_fortran_order(tensor) : tensor;
}

std::string format_npy(const Tensor& tensor, const std::string& where) {
  const auto* const row =
      std::find_if(kNumpyTypes.begin(), kNumpyTypes.end(),
                   [&](const NumpyType& candidate) { return candidate.type == tensor.type(); });
  if (row == kNumpyTypes.end()) {
    throw UserError(fmt::format("{}: .npy has no element type for {}; write a .pb file instead", where,
                                data_type_name(tensor.type())));
  }
  std::string header = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   row->size == 1 ? '|' : '<', row->kind, row->size,
                                   fmt::join(tensor.shape(), ", "), tensor.rank() == 1 ? "," : "");
  constexpr size_t kPrefix = 10;     // magic, version, length
  constexpr size_t kAlignment = 64;  // of the data in the file
  const size_t unpadded = kPrefix + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');
  isa::check_internal(header.size() <= 0xffff, "format_npy", "a header of {} bytes", header.size());
  std::string file = "\x93NUMPY";
  file.push_back('\x01');
  file.push_back('\x00');
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  file += header;
  file.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.byte_size());
  return file;
}

std::string zip_error_text(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

/// The bytes of one entry. Memory grows with what really comes out of the archive, not with what its
/// directory claims.
std::string read_zip_entry(zip_t* archive, zip_uint64_t index, const std::string& where) {
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> entry(zip_fopen_index(archive, index, 0),
                                                                zip_fclose);
  if (!entry) throw UserError(fmt::format("{}: can't be unpacked ({})", where, zip_strerror(archive)));
  std::string bytes;
  std::vector<char> chunk(size_t{1} << 20);
  std::optional<uint64_t> wanted;
  while (true) {
    const zip_int64_t got = zip_fread(entry.get(), chunk.data(), chunk.size());
    if (got < 0) {  // also when the checksum is wrong
      throw UserError(fmt::format("{}: can't be unpacked ({})", where, zip_file_strerror(entry.get())));
    }
    if (got == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(got));
    // A small archive may hold any number of zeros; its array's header says how many bytes can be of use.
    if (!wanted) wanted = npy_bytes(bytes, where);
    if (bytes.size() > *wanted)
      throw UserError(fmt::format("{}: more than the {} bytes that its header says", where, *wanted));
  }
}

Tensor read_npz(const std::string& path, const std::string& member) {
  std::error_code file_error;
  if (!std::filesystem::is_regular_file(path, file_error)) isa::read_file(path);  // for its message
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY, &code),
                                                         zip_discard);
  if (!archive) throw UserError(fmt::format("{}: not a .npz (zip) archive ({})", path, zip_error_text(code)));
  std::vector<std::string> names;
  std::optional<zip_uint64_t> found;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* const entry_name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    if (entry_name == nullptr) continue;
    std::string name = entry_name;
    if (name.size() < 4 || name.substr(name.size() - 4) != ".npy") continue;
    name.resize(name.size() - 4);
    if (member.empty() || name == member) found = static_cast<zip_uint64_t>(i);
    names.push_back(std::move(name));
  }
  if (member.empty() && names.size() != 1) {
    throw UserError(fmt::format("{}: the archive holds {} arrays ({}); say which one", path, names.size(),
                                fmt::join(names, ", ")));
  }
  if (!found) {
    throw UserError(fmt::format("{}: there is no array '{}'; the archive holds {}", path, member,
                                names.empty() ? "no array" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const std::string where = fmt::format("{}: array '{}'", path, member.empty() ? names.front() : member);
  return parse_npy(read_zip_entry(archive.get(), *found, where), where);
}

}  // namespace

bool is_numpy_type(DataType type) {
  return std::ranges::find(kNumpyTypes, type, &NumpyType::type) != kNumpyTypes.end();
}

Tensor read_numpy_file(const std::string& path, const std::string& member) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".npz") return read_npz(path, member);
  return parse_npy(isa::read_file(path), path);
}

void write_numpy_file(const std::string& path, const Tensor& tensor) {
  isa::write_file_atomically(path, format_npy(tensor, path));
}

}  // namespace kodama::compiler
