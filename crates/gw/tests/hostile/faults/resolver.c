/* A resolver that a test writes the script of: names that end in `.scripted.test` are what the file $RESOLVER says: an
   address, or `fail`. Names that begin with `slow.` are answered after half a minute. Every such question is a line in
   $RESOLVER.log. All other names go to the machine's own resolver. Loaded with LD_PRELOAD by guarantees_network.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    lookup *real = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *script = getenv("RESOLVER");
    if (!node || !script || !strstr(node, ".scripted.test"))
        return real(node, service, hints, found);
    char text[256] = "";
    snprintf(text, sizeof text, "%s.log", script);
    FILE *file = fopen(text, "a");
    if (file) {
        fprintf(file, "%s\n", node);
        fclose(file);
    }
    if (strncmp(node, "slow.", 5) == 0) {
        sleep(30);
        return EAI_AGAIN;
    }
    file = fopen(script, "r");
    if (!file || !fgets(text, sizeof text, file) || strncmp(text, "fail", 4) == 0)
        return EAI_NONAME;
    fclose(file);
    return real(text, service, hints, found);
}
