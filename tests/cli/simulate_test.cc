#include "cli/simulate/simulate.h"

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <sstream>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "base/json_reader.h"

namespace tessera::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

Ran run(const SimulateOptions& options, bool progress = false) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_simulate(options, out, err, progress);
  return {.code = code, .out = out.str(), .err = err.str()};
}

SimulateOptions small() {
  SimulateOptions options;
  options.synthetic_nodes = 12;
  options.policies = "fgd,FirstFit";
  options.seeds = "2";
  return options;
}

TEST(Simulate, WorksWithoutAnyFile) {
  const Ran ran = run(small());
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("12 nodes"), HasSubstr("2 runs each"), HasSubstr("ALLOC 100%"),
                             HasSubstr("\nfgd "), HasSubstr("\nFirstFit ")));
  EXPECT_EQ(ran.err, "");  // progress is shown only on terminals
}

TEST(Simulate, ShowsProgressOnATerminalAndErasesIt) {
  const Ran ran = run(small(), true);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("1/4 runs, last "), testing::EndsWith("\r\x1b[K")));
}

TEST(Simulate, JsonHasTheDocumentedFields) {
  SimulateOptions options = small();
  options.output = "json";
  options.at = "100,130,140";
  const auto document = parse_json(run(options).out);
  ASSERT_TRUE(document) << document.error().text();
  const boost::json::object& root = document->as_object();
  EXPECT_EQ(root.at("v").as_int64(), 1);
  EXPECT_EQ(root.at("trace").at("nodes").as_string(), "synthetic");
  EXPECT_EQ(root.at("trace").at("node_count").as_int64(), 12);
  EXPECT_EQ(root.at("seeds"), (boost::json::array{42, 43}));
  EXPECT_EQ(root.at("at"), (boost::json::array{100, 130, 140}));
  ASSERT_EQ(root.at("policies").as_array().size(), 2U);
  for (const auto& [index, name, reference] :
       {std::tuple(0, "fgd", false), std::tuple(1, "FirstFit", true)}) {
    const boost::json::object& policy = root.at("policies").at(static_cast<std::size_t>(index)).as_object();
    EXPECT_EQ(policy.at("name").as_string(), name);
    EXPECT_EQ(policy.at("reference").as_bool(), reference);
    double sum = 0;
    ASSERT_EQ(policy.at("seeds").as_array().size(), 2U);
    for (const boost::json::value& seed : policy.at("seeds").as_array()) {
      sum += seed.at("allocated_percent").at("100").as_double();
      EXPECT_GT(seed.at("placed").as_int64(), 0);
      EXPECT_GT(seed.at("refused").as_int64(), 0);
      EXPECT_GE(seed.at("seconds").as_double(), 0);
      EXPECT_TRUE(seed.at("allocated_percent").at("140").is_null());  // never requested
    }
    const double mean = policy.at("mean").at("allocated_percent").at("100").as_double();
    EXPECT_NEAR(mean, sum / 2, 0.001);
    EXPECT_GT(mean, 60);
    EXPECT_LE(mean, 100);
  }
}

TEST(Simulate, OutputDependsOnlyOnTheSeeds) {
  for (const char* output : {"csv", "svg"}) {
    SimulateOptions options = small();
    options.output = output;
    options.threads = 1;
    const Ran once = run(options);
    options.threads = 3;
    EXPECT_EQ(once.out, run(options).out);
    options.seeds = "44,45";
    EXPECT_NE(once.out, run(options).out);
  }
}

TEST(Simulate, CsvHasFullCurves) {
  SimulateOptions options = small();
  options.output = "csv";
  options.seeds = "7,";
  EXPECT_THAT(
      run(options).out,
      AllOf(testing::StartsWith("policy,seed,load_percent,allocated_percent,fragmented_percent\nfgd,7,"),
            HasSubstr("\nFirstFit,7,")));
}

TEST(Simulate, ChartNamesEveryPolicy) {
  SimulateOptions options = small();
  options.output = "svg";
  EXPECT_THAT(run(options).out,
              AllOf(testing::StartsWith("<svg "), HasSubstr(">fgd</text>"), HasSubstr(">FirstFit</text>"),
                    Not(HasSubstr("nan")), Not(HasSubstr("inf")), testing::EndsWith("</svg>\n")));
}

TEST(Simulate, ReadsTracesAndLocatesInvalidFields) {
  const TemporaryDirectory directory;
  SimulateOptions options = small();
  options.nodes = directory.path() + "/nodes.csv";
  options.pods = directory.path() + "/pods.csv";
  ASSERT_TRUE(
      write_file(options.nodes, "sn,cpu_milli,memory_mib,gpu,model\na,8000,1024,1,T4\nb,8000,1024,1,T4\n"));
  ASSERT_TRUE(write_file(options.pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,1,500\n"));
  options.inflate = "1";
  options.at = "100";
  const Ran good = run(options);
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("100.00 ±0.00"));

  ASSERT_TRUE(write_file(options.pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,1,5oo\n"));
  const Ran bad = run(options);
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err,
              AllOf(HasSubstr("tessera: " + options.pods), HasSubstr("line 2, column 5 (gpu_milli)")));
  options.pods = "";
  EXPECT_THAT(run(options).err, HasSubstr("--nodes and --pods belong together"));
}

TEST(Simulate, TableFitsInAHundredColumns) {
  SimulateOptions options = small();
  options.policies = "all";
  std::istringstream table(run(options).out);
  for (std::string line; std::getline(table, line);) {
    EXPECT_LE(line.size(), 104U) << line;  // bytes; ± has two of them
  }
}

TEST(Simulate, ExplainsWhyALoadHasNoValue) {
  SimulateOptions options = small();
  EXPECT_THAT(run(options).out, Not(HasSubstr("No run reached this load")));
  options.at = "150";
  EXPECT_THAT(run(options).out, HasSubstr("No run reached this load; --inflate sets how much"));
}

TEST(SimulateOptionsText, ParsesEveryDocumentedForm) {
  EXPECT_THAT(parse_seeds("3").value(), ElementsAre(42, 43, 44));
  EXPECT_THAT(parse_seeds("7,9").value(), ElementsAre(7, 9));
  EXPECT_THAT(parse_seeds("7,").value(), ElementsAre(7));
  EXPECT_THAT(parse_seeds("5..7").value(), ElementsAre(5, 6, 7));
  EXPECT_EQ(parse_inflate("1.3").value(), 1300);
  EXPECT_EQ(parse_inflate("2").value(), 2000);
  EXPECT_EQ(parse_inflate("0.955").value(), 955);
  EXPECT_THAT(parse_loads("100, 130,100").value(), ElementsAre(100, 130));
  EXPECT_EQ(parse_policies("all")->size(), 10U);
  EXPECT_EQ(parse_policies("fgd,FGD,fgd")->size(), 2U);
}

TEST(SimulateOptionsText, NamesTheInvalidOption) {
  EXPECT_THAT(parse_seeds("0").error().text(), HasSubstr("--seeds"));
  EXPECT_THAT(parse_seeds("9..7").error().text(), HasSubstr("the first seed, 9, is larger than the last, 7"));
  EXPECT_THAT(parse_seeds("1..5000").error().text(), HasSubstr("use 1 to 1000"));
  EXPECT_THAT(parse_seeds("x").error().text(), HasSubstr("\"x\" is not a whole number"));
  for (const char* text : {"", ".", "1.", "0", "-1", "1.2345", "1e3", "1000"}) {
    EXPECT_EQ(parse_inflate(text).has_value(), std::string(text) == "1.") << text;
  }
  EXPECT_THAT(parse_loads("100%").error().text(), HasSubstr("\"100%\" is not a whole percentage"));
  EXPECT_THAT(parse_policies("fgd,").error().text(), HasSubstr("there is no policy \"\""));
}

}  // namespace
}  // namespace tessera::cli
