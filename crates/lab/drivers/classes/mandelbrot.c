// Points of the Mandelbrot set.
#include "work.h"

int main(int c, char **v) {
    begin(c, v);
    REPEAT({
        double cx = (draw() % 3000) / 1000. - 2, cy = (draw() % 2000) / 1000. - 1, x = 0, y = 0;
        int n = 0;
        while (n < 500 && x * x + y * y < 4) {
            double t = x * x - y * y + cx;
            y = 2 * x * y + cy;
            x = t;
            n++;
        }
        sink += n;
    });
}
