/* exp on top of the 16-lane interface. */

/* Cody-Waite reduction by ln 2 and a polynomial of degree 6; relative error about 1e-7. Inputs are held within
 * -87 .. 88; not-a-number stays one. */
static inline VF v_exp(VF x)
{
    x = v_min(v_set(88.0f), v_max(v_set(-87.0f), x));
    VF n = v_round(v_mul(x, v_set(1.44269504f)));
    VF r = v_fma(n, v_set(-0.693359375f), x);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    VF p = v_fma(v_set(1.0f / 720), r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_scale2(p, n);
}
