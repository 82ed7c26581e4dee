// Edit distances of short strings.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    static char a[300], b[300];
    static int d[301];
    for (int i = 0; i < 300; i++)
        a[i] = draw() % 4, b[i] = draw() % 4;
    REPEAT({
        for (int j = 0; j <= 300; j++)
            d[j] = j;
        for (int i = 1; i <= 300; i++) {
            int o = d[0];
            d[0] = i;
            for (int j = 1; j <= 300; j++) {
                int t = d[j];
                int m = o + (a[i - 1] != b[j - 1]);
                if (d[j] + 1 < m)
                    m = d[j] + 1;
                if (d[j - 1] + 1 < m)
                    m = d[j - 1] + 1;
                d[j] = m;
                o = t;
            }
        }
        sink += d[300];
    });
}
