// Would catch: a secret in what people paste into tickets, and a log that is masked until it says nothing.

#include "look/look_parts.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

TEST_CASE("Planted secrets appear in no masked text", "[mask][secrets]") {
  const std::string secret = GENERATE(
      "HF_TOKEN=planted_1x", "export WANDB_API_KEY='planted_1x'", "--hf-token planted_1x", "--token=planted_1x",
      "password: planted_1x", "db_password = \"planted_1x\"", "{\"api_key\": \"planted_1x\", \"x\": 1}",
      "{\\\"secret\\\": \\\"planted_1x\\\"}", "Authorization: Bearer planted_1x", "authorization: basic planted_1x",
      "git clone https://me:planted_1x@git.example.com/x.git", "redis://:planted_1x@host:6379/0",
      "s3.access_key_id=planted_1x", "AWS_SECRET_ACCESS_KEY planted: aws_secret_access_key=planted_1x",
      "Cookie: planted_1x", "the password is planted_1x", "PASSWD=planted_1x,more", "passphrase: planted_1x",
      "-----BEGIN RSA PRIVATE KEY-----\nplanted_1x\nplanted_1x\n-----END RSA PRIVATE KEY-----",
      "curl -H 'X-Auth-Token: planted_1x' host", "AccountKey=planted_1x;EndpointSuffix=x", "url?sig=planted_1x&se=3",
      "client_secret=planted_1x", "credentials=planted_1x");
  INFO(secret << " -> " << masked(secret));
  CHECK(masked(secret).find("planted_1x") == std::string::npos);
}

TEST_CASE("Tokens of known form are masked wherever they are", "[mask][secrets]") {
  const std::string token = GENERATE("hf_abcdefghijklmnopqrst", "sk-proj-abcdefghijklmnop", "ghp_abcdefghijklmnopqrst",
                                     "glpat-abcdefghijklmn", "nvapi-abcdefghijklmnopq", "AKIAIOSFODNN7EXAMPLE",
                                     "xoxb-123456789012-abc", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef");
  CHECK(masked("loading " + token + " now") == "loading *** now");
}

TEST_CASE("What a log says of training stays", "[mask]") {
  for (const std::string line :
       {"tokens per second: 34000", "tokenizer=gpt2 max_tokens=512", "token: 4096", "use_auth_token=True",
        "NCCL INFO comm 0x7f rank 3 nranks 8 - Init COMPLETE", "sigma=0.5 design: ok", "keys: 12 monkey=banana",
        "http://10.0.0.1:29500/x", "File \"/a/token.py\", line 3, in step", "pwd", "--token"}) {
    CHECK(masked(line) == line);
  }
}

TEST_CASE("The word after a secret option goes as a whole, whatever it has", "[mask][secrets]") {
  CHECK(masked_command({"train.py", "--password", "my secret, with 'quotes'", "--lr", "0.1"}) ==
        "train.py --password *** --lr 0.1");
  CHECK(masked_command({"train.py", "--api-key=abc,def", "x"}) == "train.py --api-key=***,def x");
  CHECK(names_secret("WANDB_API_KEY"));
  CHECK_FALSE(names_secret("MASTER_ADDR"));
}

TEST_CASE("A long line of names takes no quadratic time", "[mask]") {
  std::string line;
  for (int i = 0; i < 100000; ++i) line += "token_hf_sk-://";
  CHECK(masked(line).find("***") != std::string::npos);
  CHECK(masked(line + "\nplain line").ends_with("\nplain line"));
}

TEST_CASE("Of a private key everything goes, also if the text begins within it, and what follows it stays", "[mask]") {
  const std::string end = "\n-----END RSA PRIVATE KEY-----\n", begin = "-----BEGIN RSA PRIVATE KEY-----\n";
  CHECK(masked("a\n" + begin + "planted" + end + "step 2 ok").ends_with("KEY-----\nstep 2 ok"));
  CHECK(masked("planted" + end + "step 2 ok").find("planted") == std::string::npos);
  CHECK(masked("planted" + end + "step 2 ok").ends_with("step 2 ok"));
  CHECK(masked("a\n" + begin + "planted\n" + begin + "planted").find("planted") == std::string::npos);
}
