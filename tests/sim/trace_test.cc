#include "sim/trace.h"

#include <gmock/gmock.h>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "sim/csv.h"

namespace tessera::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(TraceNodes, FindsColumnsByName) {
  const auto nodes = parse_nodes("gpu,sn,extra,model,memory_mib,cpu_milli\n2,a,x,P100,262144,64000\n");
  ASSERT_TRUE(nodes) << nodes.error().text();
  EXPECT_THAT(*nodes,
              ElementsAre(TraceNode{
                  .name = "a", .cpu_milli = 64000, .memory_mib = 262144, .gpus = 2, .model = "P100"}));
}

TEST(TracePods, MayHaveOnlyFiveColumns) {
  const auto pods = parse_pods("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nq,6000,12288,1,460\n");
  ASSERT_TRUE(pods) << pods.error().text();
  EXPECT_THAT(
      *pods,
      ElementsAre(TracePod{
          .name = "q", .cpu_milli = 6000, .memory_mib = 12288, .gpus = 1, .gpu_milli = 460, .models = {}}));
}

TEST(TracePods, ListEachAllowedModelOnce) {
  const auto pods = parse_pods(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\r\n"
      "q,1,2,8,1000,V100M32|V100M16|V100M32,LS\r\n"
      "\"r, the second\",1,2,0,0,,\"B\"\"E\"\r\n"
      "\r\n");
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_THAT(*pods, SizeIs(2));
  EXPECT_THAT(pods->at(0).models, ElementsAre("V100M16", "V100M32"));
  EXPECT_EQ(pods->at(0).requested_gpu_milli(), 8000);
  EXPECT_EQ(pods->at(1).name, "r, the second");
}

struct Fault {
  const char* pods;
  const char* says;
};

class TraceFaults : public testing::TestWithParam<Fault> {};

TEST_P(TraceFaults, NameLineAndColumn) {
  const auto pods = parse_pods(GetParam().pods);
  ASSERT_FALSE(pods);
  EXPECT_THAT(pods.error().text(), HasSubstr(GetParam().says));
}

#define HEADER "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
INSTANTIATE_TEST_SUITE_P(
    All, TraceFaults,
    testing::Values(
        Fault{"", "is empty; its first line must name the columns"},
        Fault{"name,cpu_milli\n",
              "line 1: there is no column memory_mib; the columns are \"name\" and \"cpu_milli\""},
        Fault{"name,cpu_milli,memory\n", "; did you mean memory_mib instead of \"memory\"?"},
        Fault{"name,cpu_mili,memory_mib\n", "; did you mean cpu_milli instead of \"cpu_mili\"?"},
        Fault{"a,b,c,d,e,f,g,h,i,j,k,l\n", "\"j\" and 2 more"},
        Fault{"name,cpu_milli,memory_mib,num_gpu,gpu_milli,memory_mib\n",
              "line 1: there are two columns memory_mib"},
        Fault{"name;cpu_milli\n", "line 1: there is no column name; columns are separated by commas"},
        Fault{"\x1f\x8b\x08", "is compressed; unpack it with gunzip first"},
        Fault{HEADER "a,1,1,1,100\nb,1,1,x,100\n",
              "line 3, column 4 (num_gpu): \"x\" is not a whole number from 0 to 64"},
        Fault{HEADER "a,1.5,1,1,100\n", "line 2, column 2 (cpu_milli): \"1.5\" is not a whole number"},
        Fault{HEADER "a,-1,1,1,100\n", "column 2 (cpu_milli): \"-1\""},
        Fault{HEADER "a,1,1,1,1001\n", "column 5 (gpu_milli): \"1001\" is not a whole number from 0 to 1000"},
        Fault{HEADER "a,1,1,65,1000\n", "column 4 (num_gpu): \"65\""},
        Fault{HEADER "a,1,1,1,0\n",
              "line 2, column 5 (gpu_milli): is 0 for 1 GPUs; either both or none must be 0"},
        Fault{HEADER "a,1,1,0,500\n",
              "column 5 (gpu_milli): is 500 for 0 GPUs; either both or none must be 0"},
        Fault{HEADER "a,1,1,1\n", "line 2: has 4 fields, but the first line has 5"},
        Fault{HEADER "a,1,1,1,100,7\n", "line 2: has 6 fields, but the first line has 5"},
        Fault{HEADER "\"a,1,1,1,100\n", "line 2, column 1: the quote is never closed"},
        Fault{HEADER "\"a\"b,1,1,1,100\n", "line 2, column 1: text follows the closing quote"}));

TEST(CsvTable, CountsLinesInsideQuotes) {
  const auto pods = parse_pods(HEADER "\"two\nlines\",1,1,1,100\nb,1,1,1,x\n");
  ASSERT_FALSE(pods);
  EXPECT_THAT(pods.error().text(), HasSubstr("line 4, column 5"));
}

TEST(TraceNodes, HaveUniqueNames) {
  const auto twice = parse_nodes("sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4\na,1,1,1,T4\n");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().text(), HasSubstr("line 3, column 1 (sn): \"a\" is listed twice"));
}

TEST(Trace, NeedsGpusAndPodsThatRequestThem) {
  const TemporaryDirectory directory;
  const std::string nodes = directory.path() + "/nodes.csv";
  const std::string pods = directory.path() + "/pods.csv";
  ASSERT_TRUE(write_file(nodes, "sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n"));
  ASSERT_TRUE(write_file(pods, HEADER "p,1,1,1,100\n"));
  EXPECT_THAT(read_trace(nodes, pods).error().text(), HasSubstr("nodes.csv: no node has a GPU"));
  ASSERT_TRUE(write_file(nodes, "sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4\n"));
  ASSERT_TRUE(write_file(pods, HEADER "p,1,1,0,0\n"));
  EXPECT_THAT(read_trace(nodes, pods).error().text(), HasSubstr("pods.csv: no pod requests a GPU"));
  EXPECT_THAT(read_trace(nodes, directory.path() + "/none").error().text(), HasSubstr("none"));
}

}  // namespace
}  // namespace tessera::sim
