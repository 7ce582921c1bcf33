// Any text as a change whose inverse is asked for: refused with a sentence, or an inverse that is TOML.
#include "tools/script_inverse.c"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char s_topology[] =
    "[run]\nname = \"fuzz\"\nsteps = 20\n[actor.shared]\nkind = \"synthetic\"\n"
    "[stage.source]\nactor = \"source\"\n[actor.source]\nkind = \"synthetic\"\n"
    "[stage.left]\nactor = \"shared\"\ndoes = \"work\"\ndepends_on = [\"source\"]\nas = { payload = \"l\" }\nbusy_ms = 1.5\n";

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    verl_error_t error = { "" };
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, bytes, size);
    text[size] = '\0';
    char *inverse = verl_script_inverse(s_topology, text, &error);
    if (!inverse != (error.text[0] != '\0'))
        abort();
    if (inverse) {
        verl_pool_t pool = { 0 };
        verl_toml_error_t why;
        if (!verl_toml_parse(inverse, strlen(inverse), &pool, &why))
            abort();
        verl_pool_done(&pool);
    }
    free(inverse);
    free(text);
    return 0;
}
