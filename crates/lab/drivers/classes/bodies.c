// Forces between 64 bodies.
#include "work.h"
#include <math.h>

int main(int c, char **v) {
    begin(c, v);
    static double p[64][3], q[64][3];
    for (int i = 0; i < 64; i++)
        for (int d = 0; d < 3; d++)
            p[i][d] = draw() % 1000;
    REPEAT({
        for (int a = 0; a < 64; a++)
            for (int b = 0; b < 64; b++) {
                double s = 1e-3;
                for (int d = 0; d < 3; d++) {
                    double x = p[a][d] - p[b][d];
                    s += x * x;
                }
                s = 1 / (s * sqrt(s));
                for (int d = 0; d < 3; d++)
                    q[a][d] += (p[b][d] - p[a][d]) * s;
            }
        for (int a = 0; a < 64; a++)
            for (int d = 0; d < 3; d++)
                p[a][d] += 1e-6 * q[a][d];
    });
}
