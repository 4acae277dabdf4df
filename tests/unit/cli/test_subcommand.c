#include "cli/subcommand.h"
#include "tests/cmocka.h"

static int g_argc;
static char *g_word;

static int seven(int argc, char **argv)
{
    g_argc = argc;
    g_word = argv[argc - 1];
    return 7;
}

static int never(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fail_msg("the wrong command ran");
    return 0;
}

static const struct cli_subcommand g_commands[] = {{"first", "one", never}, {"second", "two", seven}};

static int run(int argc, char **argv)
{
    return cli_subcommand_run("program", "FILE", g_commands, 2, argc, argv);
}

static void the_named_command_gets_what_follows(void **state)
{
    char *argv[] = {(char *)"program", (char *)"second", (char *)"x"};
    (void)state;
    assert_int_equal(run(3, argv), 7);
    assert_int_equal(g_argc, 2);
    assert_string_equal(g_word, "x");
}

static void help_is_no_error_and_a_wrong_word_is(void **state)
{
    char *help[] = {(char *)"program", (char *)"--help"}, *prefix[] = {(char *)"program", (char *)"sec"};
    (void)state;
    assert_int_equal(run(2, help), 0);
    assert_int_equal(run(1, help), 2);
    assert_int_equal(run(2, prefix), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_command_gets_what_follows),
        cmocka_unit_test(help_is_no_error_and_a_wrong_word_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
