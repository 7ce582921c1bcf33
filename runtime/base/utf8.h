// utf8.h: text that was cut keeps whole characters.
#ifndef VERL_UTF8_H
#define VERL_UTF8_H

// Takes away the beginning of a character at the end of a text that was cut there. Anything else stays as it is, also
// bytes that are no UTF-8.
void verl_utf8_trim(char *text);
#endif
